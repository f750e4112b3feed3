// Samples to imitate, from a run folder (its episodes, whose samples are made anew and checked) or from a file of rows in
// slime's layout. Ids mean something to one tokenizer alone, so a run of another one is refused.

import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import type { ClonedSample } from "../../learner/index.ts";
import { readEpisodes } from "../../store/index.ts";

export type ClonedFrom = {
  readonly cwd: string;
  /** Least reward of a sample; `null`: any, and none. */
  readonly minReward: number | null;
  /** Of the model that shall imitate. */
  readonly vocabularySize: number;
  readonly modelFolder: string;
};

/** Rejects with a `ConfigurationError` when there is nothing to imitate, or when the tokens are of another tokenizer. */
export async function readClonedSamples(from: string, options: ClonedFrom): Promise<readonly ClonedSample[]> {
  const path = resolve(options.cwd, from);
  if (!existsSync(path)) {
    throw new ConfigurationError(
      `Cannot read samples from "${from}": there is no such file or folder; correct --from.`,
    );
  }
  const isFolder = (await stat(path)).isDirectory();
  if (isFolder) await checkTokenizer(path, from, options);
  const all = isFolder ? await fromFolder(path) : await fromRows(path, from);
  const { minReward, vocabularySize } = options;
  const samples = all.filter(({ reward }) => minReward === null || (reward !== null && reward >= minReward));
  if (samples.length === 0) {
    throw new ConfigurationError(
      `Cannot imitate "${from}": ${all.length === 0 ? "it has no samples" : `none of its ${all.length} samples has a reward of ${minReward}`}; ` +
        "give another --from.",
    );
  }
  if (samples.some(({ tokens }) => tokens.some((id) => id >= vocabularySize))) throw otherTokenizer(from, options);
  return samples;
}

type RewardedSample = ClonedSample & { readonly reward: number | null };

async function fromFolder(path: string): Promise<readonly RewardedSample[]> {
  const samples: RewardedSample[] = [];
  for await (const episode of readEpisodes(path)) samples.push(...episodeSamples(episode).samples);
  return samples;
}

async function checkTokenizer(path: string, from: string, options: ClonedFrom): Promise<void> {
  const manifest: unknown = JSON.parse(await readFile(join(path, "run.json"), "utf8").catch(() => "{}"));
  const model = (manifest as { readonly model?: { readonly vocabularySize?: unknown } | null }).model ?? {};
  if (model.vocabularySize !== options.vocabularySize) throw otherTokenizer(from, options);
}

function otherTokenizer(from: string, { modelFolder }: ClonedFrom): ConfigurationError {
  return new ConfigurationError(
    `Cannot imitate "${from}": its tokens are of another tokenizer than that of "${modelFolder}"; roll out with ` +
      `--model ${modelFolder}.`,
  );
}

async function fromRows(path: string, from: string): Promise<readonly RewardedSample[]> {
  const lines = (await readFile(path, "utf8")).split("\n").filter((line) => line.trim() !== "");
  return lines.map((line, index) => {
    try {
      return readRow(JSON.parse(line) as unknown);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new ConfigurationError(
        `Cannot read samples from "${from}" at line ${index + 1}: ${reason}; give a samples.jsonl in slime's layout.`,
        { cause },
      );
    }
  });
}

/** The masks of a row cover the response alone, which ends where the tokens end. */
function readRow(row: unknown): RewardedSample {
  const fields = (typeof row === "object" && row !== null ? row : {}) as Readonly<Record<string, unknown>>;
  const numbers = (name: string): readonly number[] => {
    const value = fields[name];
    if (Array.isArray(value) && value.every((one) => Number.isInteger(one) && (one as number) >= 0)) {
      return value as number[];
    }
    throw new Error(`"${name}" is no list of whole numbers`);
  };
  const [tokens, mask] = [numbers("tokens"), numbers("loss_mask")];
  const start = tokens.length - mask.length;
  if (start < 1) throw new Error(`${mask.length} entries of "loss_mask" for ${tokens.length} tokens`);
  const lossMask = new Uint8Array(tokens.length);
  lossMask.set(mask, start);
  const reward = typeof fields["reward"] === "number" ? fields["reward"] : null;
  return { tokens: Uint32Array.from(tokens), lossMask, reward };
}
