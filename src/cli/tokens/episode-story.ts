// An episode of a run as tokens with roles: exactly as recorded, without rendering anything again.
// Facts that the run folder does not hold (which tokens of the first prompt are the system's and
// which the user's) are not invented: these tokens are "history".

import type { Episode, Tokenizer, Sample, Trajectory } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { branchesOf, turnPrompt, untrainedSamples } from "../../trajectories/index.ts";
import { type Colours, formatCount } from "../display/terminal-text.ts";
import { visibleLine } from "../../lib/text.ts";

type StorySources = {
  readonly trajectory: Trajectory;
  /** One sample for each branch that trains anything. */
  readonly samples: readonly Sample[];
  /** For each turn, the roles of its whole sequence, its action included. */
  readonly roles: ReadonlyMap<number, readonly TokenRole[]>;
  readonly decode: (ids: Uint32Array) => string;
};

export function storySamples({ trajectory, samples, roles, decode }: StorySources): StorySample[] {
  const branches = branchesOf(trajectory);
  return samples.map((sample) => {
    const path = branches[sample.branch] ?? [];
    const sequence = roles.get(path.at(-1)?.index ?? -1) ?? [];
    return {
      id: sample.id,
      rewriteReason: path.findLast(({ rewriteReason }) => rewriteReason !== null)?.rewriteReason ?? null,
      tokens: Array.from(sample.tokens, (id, at): StoryToken => {
        const logprob = sample.logprobs?.[at] ?? Number.NaN;
        return {
          id,
          text: decode(sample.tokens.subarray(at, at + 1)),
          role: sequence[at] ?? "history",
          isSampled: sample.sampledMask[at] === 1,
          isTrained: sample.lossMask[at] === 1,
          logprob: Number.isNaN(logprob) ? null : logprob,
        };
      }),
    };
  });
}

/** Tokens of a prompt without an answer yet. */
export function observedTokens(
  ids: Uint32Array,
  roles: readonly TokenRole[],
  decode: (ids: Uint32Array) => string,
): StoryToken[] {
  // prettier-ignore
  return Array.from(ids, (id, at) => ({
    id,
    text: decode(ids.subarray(at, at + 1)),
    role: roles[at] ?? "history",
    isSampled: false,
    isTrained: false,
    logprob: null,
  }));
}

/**
 * Origin of a token. "prompt": the opening of an answer. "template": text between messages.
 * "history": a rewritten beginning.
 */
export type TokenRole = "system" | "user" | "assistant" | "tool" | "prompt" | "template" | "history";

export type StoryToken = {
  readonly id: number;
  readonly text: string;
  readonly role: TokenRole;
  /** Fact: the policy sampled this token (in a conversation file: it is part of an answer). */
  readonly isSampled: boolean;
  /** Decision: this token enters the loss. */
  readonly isTrained: boolean;
  /** `null` if unknown. */
  readonly logprob: number | null;
};

/** One training row, or a prompt that has not been answered yet. */
export type StorySample = {
  readonly id: string;
  /** Reason why the history before it was rewritten; `null` if it was not. */
  readonly rewriteReason: string | null;
  readonly tokens: readonly StoryToken[];
};

export type TokenStory = {
  readonly renderer: string;
  readonly tokenizer: string;
  readonly historyPolicy: string;
  readonly samples: readonly StorySample[];
  /** Remarks besides the tokens. */
  readonly notes: readonly string[];
};

export type EpisodeStoryOptions = {
  /** `null` if it no longer exists, so that ids are shown without text. */
  readonly tokenizer: Tokenizer | null;
  readonly renderer: string;
};

export function episodeStory(episode: Episode, { tokenizer, renderer }: EpisodeStoryOptions): TokenStory {
  const { samples, dropped } = episodeSamples(episode);
  const notes = dropped.map(({ turn, count, reason }) => `turn ${turn}: ${count} sampled tokens are in no sample (${reason})`); // prettier-ignore
  if (episode.historyPolicy === "no-tokens") notes.push("The agent was a model behind an API: there are no tokens.");
  if (tokenizer === null) notes.push("The tokenizer of the run no longer exists: tokens have no text.");
  const shown = samples.length > 0 ? samples : untrainedSamples(episode);
  return {
    renderer,
    tokenizer: tokenizer?.name ?? "none",
    historyPolicy: episode.historyPolicy,
    samples: storySamples({
      trajectory: episode.trajectory,
      samples: shown,
      roles: rolesOfTurns(episode),
      decode: (ids) => tokenizer?.decode(ids) ?? "",
    }),
    notes,
  };
}

function rolesOfTurns(episode: Episode): Map<number, readonly TokenRole[]> {
  const observed = observedRoles(episode);
  const all = new Map<number, readonly TokenRole[]>();
  for (const { index, parent, observationTokens, sampledTokens } of episode.trajectory.turns) {
    const before = parent === null ? [] : (all.get(parent) ?? []);
    const role: TokenRole = parent === null ? "history" : (observed.get(index) ?? "history");
    const rest = turnPrompt(episode.trajectory, index).length - before.length;
    all.set(index, [
      ...before,
      ...fill(Math.min(rest, observationTokens.length), role),
      ...fill(sampledTokens.length, "assistant"),
    ]);
  }
  return all;
}

/**
 * Role of the new observation in each turn: the user's utterance, or the answer of a tool or of the
 * loop.
 */
function observedRoles(episode: Episode): Map<number, TokenRole> {
  const roles = new Map<number, TokenRole>();
  let shown: TokenRole = "user";
  for (const event of episode.events) {
    if (event.type === "user-line") shown = "user";
    if (event.type === "decision") shown = "tool";
    if (event.type === "turn") roles.set(event.turn.index, shown);
  }
  return roles;
}

function fill(count: number, role: TokenRole): TokenRole[] {
  return Array.from({ length: count }, () => role);
}

type StoryViewOptions = {
  readonly colours: Colours;
  /** Width of the terminal; `undefined` for lines of any length. */
  readonly columns: number | undefined;
  /** True to fold nothing. */
  readonly isFull: boolean;
};

/** Number of tokens shown at each end of a run of observed tokens. */
const shownEnds = 4;

export function* storyView(story: TokenStory, options: StoryViewOptions): Generator<string> {
  const { colours } = options;
  yield `${colours.dim("renderer")} ${story.renderer}  ${colours.dim("tokenizer")} ${story.tokenizer}  ${colours.dim("history")} ${story.historyPolicy}`;
  yield `${colours.dim(". observed")}  ${colours.green("1 trained")}  ${colours.yellow("s sampled, masked")}   (place, id, mask, ${hasLogprobs(story) ? "logprob, " : ""}role, text)`;
  for (const sample of story.samples) {
    yield "";
    yield* sampleLines(sample, { ...options, withLogprobs: hasLogprobs(story) });
  }
  for (const note of story.notes) yield colours.yellow(cut(note, options.columns));
}

type LineOptions = StoryViewOptions & { readonly withLogprobs: boolean };

function* sampleLines(sample: StorySample, options: LineOptions): Generator<string> {
  const { colours, columns, isFull } = options;
  const { tokens, rewriteReason } = sample;
  const sampled = tokens.filter(({ isSampled }) => isSampled).length;
  const trained = tokens.filter(({ isTrained }) => isTrained).length;
  const heading = `${visibleLine(sample.id)}: ${formatCount(tokens.length)} tokens, ${formatCount(sampled)} sampled, ${formatCount(trained)} trained`;
  yield colours.bold(cut(heading, columns));
  if (rewriteReason !== null) yield colours.yellow(cut(`a branch: ${visibleLine(rewriteReason)}`, columns));
  for (let at = 0; at < tokens.length;) {
    const end = runEnd(tokens, at);
    const isFolded = !isFull && tokens[at]?.isSampled === false && end - at > shownEnds * 2 + 1;
    for (let place = at; place < end; place++) {
      if (isFolded && place === at + shownEnds) {
        const count = end - at - shownEnds * 2;
        yield colours.dim(`       … ${formatCount(count)} more tokens of ${roleNames[tokens[at]!.role]}`);
        place = end - shownEnds;
      }
      yield tokenLine(tokens[place]!, place, options);
    }
    at = end;
  }
}

/** Index at which a run of tokens of one role and kind ends. */
function runEnd(tokens: readonly StoryToken[], start: number): number {
  const first = tokens[start];
  const end = tokens.findIndex(
    ({ role, isSampled }, at) => at > start && (role !== first?.role || isSampled !== first.isSampled),
  );
  return end === -1 ? tokens.length : end;
}

function tokenLine(token: StoryToken, place: number, { colours, columns, withLogprobs }: LineOptions): string {
  const mask = token.isTrained ? "1" : token.isSampled ? "s" : ".";
  const score = token.logprob === null ? "" : token.logprob.toFixed(4);
  const start = `${String(place).padStart(6)} ${String(token.id).padStart(7)} ${mask} ${withLogprobs ? `${score.padStart(9)} ` : ""}`;
  const role = roleNames[token.role].padEnd(9);
  const text = cut(`${start}${role} ${visibleLine(JSON.stringify(token.text))}`, columns).slice(start.length + role.length); // prettier-ignore
  const paint = token.isTrained ? colours.green : token.isSampled ? colours.yellow : colours.dim;
  return paint(start) + roleColour(token.role, colours)(role) + paint(text);
}

const roleNames: Readonly<Record<TokenRole, string>> = {
  system: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
  prompt: "prompt",
  template: "template",
  history: "history",
};

function roleColour(role: TokenRole, colours: Colours): (text: string) => string {
  switch (role) {
    case "system":
      return colours.blue;
    case "user":
      return colours.cyan;
    case "tool":
      return colours.magenta;
    case "assistant":
      return colours.bold;
    case "prompt":
    case "template":
    case "history":
      return colours.dim;
    default:
      return role satisfies never;
  }
}

function hasLogprobs({ samples }: TokenStory): boolean {
  return samples.some(({ tokens }) => tokens.some(({ logprob }) => logprob !== null));
}

/** Truncates to the width of the terminal, but not below the width that the numbers need. */
function cut(line: string, columns: number | undefined): string {
  const width = Math.max(columns ?? Infinity, 32);
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`;
}
