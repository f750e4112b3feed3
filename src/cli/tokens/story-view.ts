// Tokens in columns: place, id, mask, role, text. Observed tokens are dim, trained ones green, sampled but masked ones yellow.
// Long observations are folded, and lines are cut to the terminal before they are coloured.

import { type Colours, formatCount, printable } from "../display/terminal-text.ts";
import type { StorySample, StoryToken, TokenRole, TokenStory } from "./token-story.ts";

export type StoryViewOptions = {
  readonly colours: Colours;
  /** Of the terminal; `undefined`: lines are as long as they are. */
  readonly columns: number | undefined;
  /** True: nothing is folded. */
  readonly isFull: boolean;
};

/** Of a run of observed tokens, so many stay at each end. */
const kept = 4;

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
  const heading = `${printable(sample.id)}: ${formatCount(tokens.length)} tokens, ${formatCount(sampled)} sampled, ${formatCount(trained)} trained`;
  yield colours.bold(cut(heading, columns));
  if (rewriteReason !== null) yield colours.yellow(cut(`a branch: ${printable(rewriteReason)}`, columns));
  for (let at = 0; at < tokens.length;) {
    const end = runEnd(tokens, at);
    const isFolded = !isFull && tokens[at]?.isSampled === false && end - at > kept * 2 + 1;
    for (let place = at; place < end; place++) {
      if (isFolded && place === at + kept) {
        const count = end - at - kept * 2;
        yield colours.dim(`       … ${formatCount(count)} more tokens of ${roleNames[tokens[at]!.role]}`);
        place = end - kept;
      }
      yield tokenLine(tokens[place]!, place, options);
    }
    at = end;
  }
}

/** Where the tokens of one role and one kind end. */
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
  const text = cut(`${start}${role} ${printable(JSON.stringify(token.text))}`, columns).slice(start.length + role.length); // prettier-ignore
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

/** At least wide enough for the numbers, whatever the terminal says. */
function cut(line: string, columns: number | undefined): string {
  const width = Math.max(columns ?? Infinity, 32);
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`;
}
