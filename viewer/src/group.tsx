// The episodes of a task side by side, from the step where they begin to differ: their common part
// is shown once.

import { useMemo } from "preact/hooks";
import {
  decodeEpisode,
  type EpisodePage,
  type Row,
  type RunFacts,
  type ShownEpisode,
  type StoredEpisode,
} from "../../src/viewer/wire/index.ts";
import { callText, readArguments } from "./actions.ts";
import { ask } from "./api.ts";
import { ending, outcomeClass, plural, printable, Reward, reward } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { linkTo, type Route } from "./route.ts";

const mostEpisodes = 16;

type Step = {
  readonly kind: "user" | "agent" | "call" | "result" | "error";
  readonly text: string;
  readonly turn: number | null;
};
type Member = { readonly row: Row; readonly episode: ShownEpisode; readonly steps: readonly Step[] };

export function Group({ facts, route: { parts } }: { readonly facts: RunFacts; readonly route: Route }) {
  const run = facts.key;
  const id = parts[2] ?? "";
  const group = useLoaded(`group ${run} ${id}`, async () => {
    const rows = await ask<readonly Row[]>("group", { run, id });
    const pages = await Promise.all(
      shownRows(rows).map(({ number }) => ask<EpisodePage<StoredEpisode>>("episode", { run, id: number })),
    );
    return { rows, members: pages.map(({ row, episode }) => memberOf(row, decodeEpisode(episode))) };
  });
  return (
    <main>
      <h1>
        Group <span class="quiet">{printable(id)}</span>
      </h1>
      <Waiting state={group}>
        {({ rows, members }) =>
          rows.length === 0 ? <p>The run has no such group.</p> : <SideBySide run={run} rows={rows} members={members} />
        }
      </Waiting>
    </main>
  );
}

/** The first episodes, with a passing and a failing one among them if the group has both. */
function shownRows(rows: readonly Row[]): readonly Row[] {
  const first = rows.slice(0, mostEpisodes);
  if (rows.length === first.length) return first;
  const rest = rows.slice(mostEpisodes);
  const kinds = ["good", "bad"] as const;
  const missing = kinds.flatMap((kind) =>
    first.some((row) => outcomeClass(row) === kind) ? [] : (rest.find((row) => outcomeClass(row) === kind) ?? []),
  );
  return [...first.slice(0, mostEpisodes - missing.length), ...missing];
}

function SideBySide({
  run,
  rows,
  members,
}: {
  readonly run: string;
  readonly rows: readonly Row[];
  readonly members: readonly Member[];
}) {
  const advantages = useMemo(() => advantagesOf(rows), [rows]);
  const shared = useMemo(() => sharedSteps(members.map(({ steps }) => steps)), [members]);
  const rewards = rows.flatMap((row) => row.reward ?? []);
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
  const hasSignal = new Set(rewards).size > 1;
  const [first] = members;
  const pair = useMemo(() => partingPair(members), [members]);
  const hasMore = pair === null || members.length > 2;
  return (
    <>
      <p class="sentence">
        {plural(rows.length, "episode")} of one task, mean reward {reward(mean)}:{" "}
        {hasSignal ? "rewards differ, so the group has signal" : "equal rewards, so the group has no signal"}.
        {rows.length > members.length && <span class="quiet"> {members.length} of them are shown.</span>}
      </p>
      {pair !== null && <Parting pair={pair} run={run} />}
      {pair !== null && hasMore && <h2>All episodes</h2>}
      {hasMore && first !== undefined && shared > 0 && members.length > 1 && (
        <section class="shared" aria-label="What they share">
          <h2>The first {plural(shared, "step")} are the same</h2>
          <Steps steps={first.steps.slice(0, shared)} run={run} number={first.row.number} />
        </section>
      )}
      {hasMore && (
        <div class="columns" tabIndex={0} role="region" aria-label="Episodes side by side">
          {members.map(({ row, steps }) => (
            <section key={row.number} class="column" aria-label={`Episode ${row.number}`}>
              <header>
                <a href={linkTo([run, "episode", row.number])}>
                  <strong>{row.number}</strong>
                </a>{" "}
                <Reward row={row} />
                <span class="quiet">
                  {" "}
                  advantage {advantageText(advantages, rows, row)} · {printable(ending(row))} ·{" "}
                  {row.turns === null ? "turns not recorded" : plural(row.turns, "turn")}
                </span>
                <p class="quiet">{printable(row.sentence)}</p>
              </header>
              <Steps steps={steps.slice(members.length > 1 ? shared : 0)} run={run} number={row.number} />
            </section>
          ))}
        </div>
      )}
    </>
  );
}

type Pair = {
  /** A passing and a failing episode. */
  readonly members: readonly [Member, Member];
  /** Number of equal calls before they part. */
  readonly calls: number;
  /** The step of each at which they part; its number of steps if it ends there. */
  readonly at: readonly [number, number];
};

/** The passing and the failing episode that part last; `null` if one of the kinds is missing. */
function partingPair(members: readonly Member[]): Pair | null {
  let best: Pair | null = null;
  for (const passing of members) {
    if (outcomeClass(passing.row) !== "good") continue;
    for (const failing of members) {
      if (["good", "none"].includes(outcomeClass(failing.row))) continue;
      const pair = partOf(passing, failing);
      if (best === null || pair.calls > best.calls) best = pair;
    }
  }
  return best;
}

/** Wording differs in every episode, so calls decide; where all are equal, the first other step of the agent does. */
function partOf(passing: Member, failing: Member): Pair {
  const [left, right] = [passing, failing].map(({ steps }) =>
    steps.flatMap(({ kind, text }, at) => (kind === "call" ? [{ kind, text, at }] : [])),
  ) as [(Step & { at: number })[], (Step & { at: number })[]];
  const members = [passing, failing] as const;
  const calls = sharedSteps([left, right]);
  if (calls === left.length && calls === right.length) {
    const own = [passing, failing].map(({ steps }) =>
      steps.flatMap((step, at) => (step.kind === "user" ? [] : [{ ...step, at }])),
    ) as [(Step & { at: number })[], (Step & { at: number })[]];
    const shared = sharedSteps(own);
    const place = (side: 0 | 1): number => own[side][shared]?.at ?? members[side].steps.length;
    return { members, calls, at: [place(0), place(1)] };
  }
  return { members, calls, at: [left[calls]?.at ?? passing.steps.length, right[calls]?.at ?? failing.steps.length] };
}

/** One that passes beside one that does not, with the steps at which they part. */
function Parting({ pair: { members, calls, at }, run }: { readonly pair: Pair; readonly run: string }) {
  return (
    <section aria-label="Where they part">
      <h2>
        One that passes beside one that does not: they part{" "}
        {calls === 0 ? "before any equal call" : `after ${plural(calls, "equal call")}`}
      </h2>
      <div class="columns" tabIndex={0} role="region" aria-label="A passing and a failing episode">
        {members.map(({ row, steps }, place) => (
          <section
            key={row.number}
            class="column"
            aria-label={`Episode ${row.number}, which ${place === 0 ? "passes" : "does not"}`}
          >
            <header>
              <a href={linkTo([run, "episode", row.number])}>
                <strong>{row.number}</strong>
              </a>{" "}
              <Reward row={row} />{" "}
              <span class="quiet">{printable(row.sentence === "" ? ending(row) : row.sentence)}</span>
            </header>
            <Steps steps={steps} run={run} number={row.number} parting={at[place]!} />
          </section>
        ))}
      </div>
    </section>
  );
}

function Steps({
  steps,
  run,
  number,
  parting = null,
}: {
  readonly steps: readonly Step[];
  readonly run: string;
  readonly number: number;
  /** The step at which two episodes part, which is marked. @default none */
  readonly parting?: number | null;
}) {
  return (
    <ol class="steps">
      {steps.map(({ kind, text, turn }, at) => (
        <li key={at} class={at === parting ? `${kind} parts` : kind}>
          {at === parting && <span class="parts-label">they part here </span>}
          <span class="label">
            {turn !== null && kind !== "result" && kind !== "error" ? (
              <a href={linkTo([run, "episode", number], { turn })}>{kind}</a>
            ) : (
              kind
            )}
          </span>{" "}
          {printable(text.length > 600 ? `${text.slice(0, 600)} …` : text)}
        </li>
      ))}
      {parting === steps.length && <li class="parts">it ends here, the other goes on</li>}
    </ol>
  );
}

function memberOf(row: Row, episode: ShownEpisode): Member {
  const steps: Step[] = [];
  for (const event of episode.events) {
    if (event.type === "user-line")
      steps.push({
        kind: "user",
        text: event.line.type === "hang-up" ? `${event.line.text} (hangs up)` : event.line.text,
        turn: null,
      });
    else if (event.type === "tool-result")
      steps.push({ kind: event.result.isError ? "error" : "result", text: event.result.text, turn: event.turn });
    else if (event.type === "decision") {
      const { decision, action, turn } = event;
      if (decision.type === "say") steps.push({ kind: "agent", text: decision.content, turn });
      else if (decision.type === "call")
        steps.push({ kind: "call", text: callText({ name: decision.call.name, arguments: decision.arguments }), turn });
      else if (decision.type === "calls") {
        for (const { call, feedback } of decision.calls) {
          const text =
            call === null
              ? (feedback ?? "")
              : callText({ name: call.name, arguments: readArguments(call.argumentsText) });
          steps.push({ kind: feedback === null ? "call" : "error", text, turn });
        }
      } else
        steps.push({
          kind: "error",
          text: decision.type === "observe" ? `${action.text} (told: ${decision.feedback})` : action.text,
          turn,
        });
    } else if (event.type === "exchange") {
      const { action, turn } = event;
      if (action.content !== "" || action.toolCalls.length === 0)
        steps.push({ kind: "agent", text: action.content, turn });
      for (const { name, argumentsText } of action.toolCalls)
        steps.push({ kind: "call", text: callText({ name, arguments: readArguments(argumentsText) }), turn });
    } else if (event.type === "program") steps.push({ kind: "result", text: event.stdout.trimEnd(), turn: null });
  }
  if (episode.events.length === 0) {
    for (const message of episode.messages) {
      if (message.role === "system") continue;
      const kind = message.role === "tool" ? "result" : message.role === "user" ? "user" : "agent";
      const calls = message.role === "assistant" ? message.toolCalls : [];
      if (message.content !== "") steps.push({ kind, text: message.content, turn: null });
      for (const { name, argumentsText } of calls)
        steps.push({ kind: "call", text: callText({ name, arguments: readArguments(argumentsText) }), turn: null });
    }
  }
  return { row, episode, steps };
}

function sharedSteps(all: readonly (readonly Step[])[]): number {
  const [first = []] = all;
  let shared = 0;
  while (
    shared < first.length &&
    all.every((steps) => steps[shared]?.kind === first[shared]!.kind && steps[shared]?.text === first[shared]!.text)
  )
    shared++;
  return shared;
}

/**
 * Advantages as group-relative learners compute them: the distance of a reward from the mean, in
 * standard deviations; 0 where all are equal.
 */
export function advantagesOf(rows: readonly Pick<Row, "reward">[]): readonly (number | null)[] {
  const rewards = rows.flatMap((row) => row.reward ?? []);
  const mean = rewards.reduce((sum, one) => sum + one, 0) / Math.max(1, rewards.length);
  const deviation = Math.sqrt(rewards.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, rewards.length));
  return rows.map((row) => (row.reward === null ? null : deviation === 0 ? 0 : (row.reward - mean) / deviation));
}

function advantageText(advantages: readonly (number | null)[], rows: readonly Row[], { number }: Row): string {
  const advantage = advantages[rows.findIndex((row) => row.number === number)] ?? null;
  return advantage === null ? "–" : signed(advantage);
}

const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(2)}`.replace("-", "−");
