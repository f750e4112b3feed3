// Compares the episodes of a group once all of them have ended.
//
//   episode ends ─► judgements ─► grade ─┬─ no ranking ─► stored
//                                        └─ held until its group is complete ─► one judgement ─► grade again ─► stored
//
// A held episode is in the journal up to its end, so a resumed run replays it without an engine.
// The ranking is recorded with the first episode that is stored; the others read it from there.

import {
  attribute,
  type Episode,
  type EpisodeEvent,
  type Failure,
  freeUsage,
  type Grade,
  type Grading,
  type GroupRanker,
  type Verdict,
} from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { type EndedEpisode, endedOf, type FinishedEpisode } from "./episode-runner.ts";
import { episodeSamples } from "../trajectories/index.ts";
import { mixGrade } from "./grading.ts";
import type { FinishedGroup } from "./groups.ts";

/**
 * Compares an ended group. Resolves with the group, its episodes graded again, or failed if the
 * judge failed. Rejects when `signal` aborts. `seed`: the order in which episodes are shown derives
 * from it.
 */
export type RankGroup = (
  group: FinishedGroup,
  options: { readonly seed: number; readonly signal: AbortSignal },
) => Promise<FinishedGroup>;

/** An episode of the group, read from where it is stored. */
type OpenMember = { readonly ended: EndedEpisode; readonly finished: FinishedEpisode };
type Judged = Extract<EpisodeEvent, { readonly type: "judgement" }>;

/** Ranks groups as the grading defines; `null` if the grading has no ranking. */
export function groupRanking(
  { environmentWeight, graders, ranker }: Grading,
  clock: Clock = systemClock,
): RankGroup | null {
  if (ranker === null) return null;
  const weight = (environmentWeight ?? 0) + graders.reduce((sum, grader) => sum + grader.weight, 0);
  return async (group, options) => {
    const members = await Promise.all(
      group.members.map(async ({ ended }): Promise<OpenMember> => ({ ended, finished: await ended.open() })),
    );
    const open = members.filter(({ finished }) => isOpen(finished.episode));
    if (open.length === 0) return group;
    // The group is dropped in any case, so its episodes need no comparison.
    if (group.ending === "surplus" || group.ending === "stale") return withMembers(group, open, ungraded);
    const known = members.flatMap(({ finished }) => rankingOf(finished.episode) ?? [])[0] ?? null;
    const shown = known === null ? inSeededOrder(open, group, options.seed) : shownBefore(known, members);
    // A single episode cannot be compared, and an episode without a comparison has no reward.
    if (shown.length < 2) return withMembers(group, open, ungraded);
    const { event, verdicts, failure } = await compare(ranker, shown, { known, signal: options.signal, clock });
    const byId = new Map(shown.map(({ finished }, place) => [finished.episode.id, verdicts?.[place]]));
    return withMembers(group, open, (finished) => {
      const { episode } = finished;
      if (!byId.has(episode.id)) return ungraded(finished);
      const isFirst = known === null && episode.id === open[0]?.finished.episode.id;
      const own = isFirst ? event : withoutUsage(event);
      const verdict = byId.get(episode.id);
      if (failure !== null || verdict === undefined) return failed(finished, own, failure);
      return graded(finished, own, mixGrade({ grade: episode.grade!, weight }, ranker, verdict));
    });
  };
}

/** The ranking in an episode that was stored after its group was compared; `null` in any other. */
function rankingOf({ events }: Episode): Judged | null {
  const found = events.find((event) => event.type === "judgement" && event.ranked !== null);
  return found?.type === "judgement" ? found : null;
}

/** True if the episode was graded and its group is not compared yet. */
function isOpen(episode: Episode): boolean {
  return episode.reward !== null && episode.grade !== null && rankingOf(episode) === null;
}

/**
 * Shuffles the episodes, so that a judge's preference for a position does not favour a place in the
 * group.
 */
function inSeededOrder(open: readonly OpenMember[], { plan }: FinishedGroup, seed: number): readonly OpenMember[] {
  return createRandom(deriveSeed(seed, plan.groupId, "ranking")).shuffle(open);
}

function shownBefore({ ranked }: Judged, members: readonly OpenMember[]): readonly OpenMember[] {
  return (ranked ?? []).flatMap((id) => members.find(({ finished }) => finished.episode.id === id) ?? []);
}

async function compare(
  ranker: GroupRanker,
  shown: readonly OpenMember[],
  { known, signal, clock }: { readonly known: Judged | null; readonly signal: AbortSignal; readonly clock: Clock },
): Promise<{
  readonly event: Judged;
  readonly verdicts: readonly Verdict[] | null;
  readonly failure: Failure | null;
}> {
  const episodes = shown.map(({ finished }) => finished.episode);
  const begun = clock.now();
  const eventOf = (judgement: Judged["judgement"]): Judged => ({
    type: "judgement",
    judgement,
    ranked: episodes.map(({ id }) => id),
    durationMs: clock.now() - begun,
  });
  try {
    const question = ranker.question(episodes);
    const event = known ?? eventOf(await ranker.judge.ask(question, { signal }));
    const { answer, failure } = event.judgement;
    if (answer === null || failure !== null) return { event, verdicts: null, failure };
    return { event, verdicts: question.read(answer), failure: null };
  } catch (error) {
    signal.throwIfAborted();
    const { failure } = attribute(error, "grader");
    const nothing = { usage: freeUsage, attempts: [], isCached: false, answer: null, digest: "" };
    const event = eventOf({ grader: ranker.name, model: ranker.judge.model, ...nothing, failure });
    return { event: known ?? event, verdicts: null, failure };
  }
}

/** The usage of a ranking is recorded with its first episode only, so that it is counted once. */
function withoutUsage(event: Judged): Judged {
  return { ...event, judgement: { ...event.judgement, usage: freeUsage, attempts: [] } };
}

function withMembers(
  group: FinishedGroup,
  changed: readonly OpenMember[],
  change: (finished: FinishedEpisode) => FinishedEpisode,
): FinishedGroup {
  const members = group.members.map((member) => {
    const open = changed.find(({ ended }) => ended === member.ended);
    // Counts are cleared, because its events were counted when it ended.
    return open === undefined ? member : { ...member, ended: { ...endedOf(change(open.finished)), counts: null } };
  });
  return { ...group, members };
}

function graded({ episode, result, origin }: FinishedEpisode, event: Judged, grade: Grade): FinishedEpisode {
  const again: EpisodeEvent = { type: "grade", grade, durationMs: 0 };
  const { reward } = grade;
  const { events, end } = splitEnd(episode);
  return {
    episode: { ...episode, reward, grade, events: [...events, event, again, ...end] },
    result: { ...result, samples: result.samples.map((sample) => ({ ...sample, reward })) },
    origin,
  };
}

/** Separates the last event if it is the end of the episode. */
function splitEnd({ events }: Episode) {
  const at = events.at(-1)?.type === "episode-end" ? events.length - 1 : events.length;
  return { events: events.slice(0, at), end: events.slice(at) };
}

/** The episode as it would be if its own grading had failed. */
function failed({ episode, origin }: FinishedEpisode, event: Judged, cause: Failure | null): FinishedEpisode {
  const missing = attribute(new Error("The ranking has no verdict on the episode."), "grader", "bad-result");
  const failure = cause ?? missing.failure;
  const stopReason = "fault";
  const end: EpisodeEvent = { type: "episode-end", stopReason, failure };
  const events = [...splitEnd(episode).events, event, end];
  const changed: Episode = { ...episode, outcome: "failed", stopReason, failure, reward: null, grade: null, events };
  return { episode: changed, result: episodeSamples(changed), origin };
}

function ungraded({ episode, origin }: FinishedEpisode): FinishedEpisode {
  const changed: Episode = { ...episode, reward: null, grade: null };
  return { episode: changed, result: episodeSamples(changed), origin };
}
