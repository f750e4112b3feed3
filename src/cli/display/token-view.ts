// The training rows of an episode, token by token, in colour: observed dim, trained green, sampled but masked yellow.

import type { Episode, Sample } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { dumpSample, toSamples } from "../../trajectories/index.ts";
import { type Colours, formatCount, printable } from "./terminal-text.ts";

export type TokenViewOptions = {
  readonly colours: Colours;
  /** `null`: the tokenizer is not at hand, and ids stand without text. */
  readonly decode: ((tokens: Uint32Array) => string) | null;
};

/** The rows as lines, a heading for each sample. An episode that trains nothing is shown with everything masked, and why. */
export function* tokenView(episode: Episode, options: TokenViewOptions): Generator<string> {
  const { colours } = options;
  const { samples, dropped } = episodeSamples(episode);
  const shown = samples.length > 0 ? samples : untrained(episode);
  if (episode.historyPolicy === "no-tokens")
    yield colours.dim("The agent was a model behind an API: there are no tokens.");
  yield `${colours.dim("observed")}  ${colours.green("sampled and trained")}  ${colours.yellow("sampled, masked")}   (place, id, mask, logprob, text)`;
  for (const sample of shown) {
    const sum = (mask: Uint8Array): string => formatCount(mask.reduce((total, bit) => total + bit, 0));
    yield "";
    yield colours.bold(
      `sample ${printable(sample.id)}: ${formatCount(sample.tokens.length)} tokens, ${sum(sample.sampledMask)} sampled, ` +
        `${sum(sample.lossMask)} trained, reward ${sample.reward ?? "–"}, ${sample.tokenAccounting}, ${sample.historyPolicy}`,
    );
    yield* sampleLines(sample, options);
  }
  for (const { turn, count, reason } of dropped) {
    yield colours.yellow(`turn ${turn}: ${formatCount(count)} sampled tokens are in no sample (${reason})`);
  }
}

function* sampleLines(sample: Sample, { colours, decode }: TokenViewOptions): Generator<string> {
  const dump = dumpSample(sample, decode ?? (() => ""));
  let at = 0;
  for (const line of dump.split("\n")) {
    const text = printable(decode === null ? line.replace(/ ""$/, "") : line);
    if (sample.lossMask[at] === 1) yield colours.green(text);
    else if (sample.sampledMask[at] === 1) yield colours.yellow(text);
    else yield colours.dim(text);
    at++;
  }
}

/** The rows of an episode that trains nothing, with everything masked. */
export function untrained(episode: Episode): Sample[] {
  if (episode.historyPolicy === "no-tokens") return [];
  const { samples } = toSamples(episode.trajectory, {
    episodeId: episode.id,
    groupId: episode.groupId,
    taskId: episode.task.id,
    reward: episode.reward,
    tokenAccounting: "token-exact",
    historyPolicy: episode.historyPolicy,
  });
  return samples.map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.tokens.length) }));
}
