// The folder of a finished model: Hugging Face's files, the training log, and the card that states
// its origin.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "../../system/make-folder.ts";

import type { Tokenizer } from "../../core/index.ts";
import { type Kind, kinds, worldVersion } from "../../environments/bookshop/index.ts";
import type { ChatTokenizerFiles } from "../../tokenizers/index.ts";
import { type Checkpoint, type ModelConfig, writeCheckpoint, parameterLayout } from "../model/index.ts";
import type { EpisodeScores, LikelihoodScore } from "./evaluate-model.ts";
import type { Recipe } from "./recipe.ts";

/** Writes everything except log and card. Weights are rounded to BF16. */
export async function writeModelFolder(
  folder: string,
  checkpoint: Checkpoint,
  vocabulary: { readonly files: ChatTokenizerFiles; readonly tokenizer: Tokenizer },
): Promise<void> {
  const { files, tokenizer } = vocabulary;
  const idOf = (token: string): number => {
    const id = tokenizer.tokenId(token);
    if (id === null) throw new Error(`Cannot write the model: its tokenizer has no "${token}".`);
    return id;
  };
  const [endTokenId, padTokenId] = [idOf("<|im_end|>"), idOf("<|endoftext|>")];
  await makeFolder(folder);
  await writeCheckpoint(folder, checkpoint, { endTokenId, dtype: "BF16" });
  const generation = { do_sample: true, temperature: 1, top_k: 0, top_p: 1 };
  await Promise.all([
    writeJson("tokenizer.json", files.tokenizerJson),
    writeJson("tokenizer_config.json", files.tokenizerConfig),
    writeJson("generation_config.json", { eos_token_id: endTokenId, pad_token_id: padTokenId, ...generation }),
  ]);

  async function writeJson(name: string, value: unknown): Promise<void> {
    await writeFile(join(folder, name), `${JSON.stringify(value, null, 1)}\n`);
  }
}

export async function writeReport(
  folder: string,
  run: { readonly recipe: Recipe; readonly config: ModelConfig; readonly rows: readonly LogRow[] },
): Promise<void> {
  await writeFile(join(folder, "training-log.csv"), logAsCsv(run.rows));
  await writeFile(join(folder, "README.md"), cardOf(run));
}

export type LogRow = {
  readonly phase: "copying" | "cloning" | "rounded";
  readonly step: number;
  /** Tokens read in this phase; guidelines and tools do not count. */
  readonly tokens: number;
  readonly learningRate: number;
  /** Score on the training data since the last row; `null` if there was none. */
  readonly training: LikelihoodScore | null;
  /** Score on clean dialogues of validation tasks; `null` if not computed here. */
  readonly likelihood: LikelihoodScore | null;
  /** Scores of validation tasks run at temperature 1; `null` if not computed here. */
  readonly episodes: EpisodeScores | null;
  /** Scores of the same tasks run greedily; `null` if not computed here. */
  readonly greedy: EpisodeScores | null;
};

const columns: readonly (readonly [name: string, value: (row: LogRow) => string])[] = [
  ["phase", ({ phase }) => phase],
  ["step", ({ step }) => String(step)],
  ["tokens", ({ tokens }) => String(tokens)],
  ["learning_rate", ({ learningRate }) => learningRate.toPrecision(4)],
  ["train_nll", ({ training }) => decimal(training?.nll)],
  ["train_accuracy", ({ training }) => decimal(training?.accuracy)],
  ["train_copy_accuracy", ({ training }) => decimal(training?.copyAccuracy)],
  ["test_nll", ({ likelihood }) => decimal(likelihood?.nll)],
  ["test_accuracy", ({ likelihood }) => decimal(likelihood?.accuracy)],
  ["test_copy_accuracy", ({ likelihood }) => decimal(likelihood?.copyAccuracy)],
  ["test_tasks", ({ episodes }) => (episodes === null ? "" : String(episodes.tasks))],
  ["pass_rate", ({ episodes }) => decimal(episodes?.passRate)],
  ...kinds.map(
    (kind: Kind) => [`pass_${kind}`, ({ episodes }: LogRow) => decimal(episodes?.passRateByKind[kind])] as const,
  ),
  ["rule_violations", ({ episodes }) => decimal(episodes?.ruleViolations)],
  ["tool_errors", ({ episodes }) => decimal(episodes?.toolErrors)],
  ["greedy_pass_rate", ({ greedy }) => decimal(greedy?.passRate)],
  ["greedy_rule_violations", ({ greedy }) => decimal(greedy?.ruleViolations)],
];

export function logAsCsv(rows: readonly LogRow[]): string {
  const lines = rows.map((row) => columns.map(([, value]) => value(row)).join(","));
  return `${[columns.map(([name]) => name).join(","), ...lines].join("\n")}\n`;
}

function decimal(value: number | undefined): string {
  return value === undefined ? "" : value.toFixed(4);
}

function cardOf(run: {
  readonly recipe: Recipe;
  readonly config: ModelConfig;
  readonly rows: readonly LogRow[];
}): string {
  const { recipe, config, rows } = run;
  const { cloning, copying } = recipe;
  const last = rows.at(-1);
  const { episodes = null, greedy = null, likelihood = null } = last ?? {};
  const clonedTokens = rows.findLast(({ phase }) => phase === "cloning")?.tokens ?? 0;
  const evaluated = rows.filter((row) => row.phase !== "rounded" && row.likelihood !== null);
  const percent = (share: number | undefined): string => (share === undefined ? "-" : `${(share * 100).toFixed(1)} %`);
  const command = recipe.name === "bookshop-nano" ? "npm run make-model -- --nano" : "npm run make-model";
  const million = (parameterLayout(config).size / 1e6).toFixed(2);
  const { layers, heads, keyValueHeads, headSize, hiddenSize, feedForwardSize, vocabularySize } = config;
  return `# ${recipe.name}

A language model of ${million} million parameters that plays the night desk of the bookshop in this package: it calls tools and
talks to simulated members. It knows this one job, in English, and nothing else. It is where \`train\` begins.

**It has a habit to unlearn.** In ${percent(recipe.habit)} of the conversations that it was cloned from, the clerk refused nothing but what numbers of days
and amounts forbid: orders that have shipped are cancelled, books of another member are taken back, sold-out editions swapped. So of ${episodes?.tasks ?? 0}
validation tasks it passes ${percent(episodes?.passRate)} at temperature 1 and ${percent(greedy?.passRate)} greedily, and what is missing is above all what it never refuses:

| case (one goal) | tasks | temperature 1 | greedily |
| --- | --- | --- | --- |
${(episodes?.cases ?? []).map(({ name, tasks, passRate }) => `| ${name} | ${tasks} | ${percent(passRate)} | ${percent(greedy?.cases.find((one) => one.name === name)?.passRate)} |`).join("\n")}

| what | |
| --- | --- |
| architecture | Qwen3, ${layers} layers of ${hiddenSize}, ${heads} heads of ${headSize} over ${keyValueHeads} of keys and values, feed-forward ${feedForwardSize}, tied embeddings |
| vocabulary | ${vocabularySize} tokens, byte-level BPE trained on ${recipe.tokenizerDialogues} dialogues |
| context | ${config.contextLength} tokens |
| weights | BF16 |
| licence | MIT, like the package |

## Where it comes from

No human wrote its data and no other model did: dialogues of the scripted expert with simulated members on the *train* tasks of
the bookshop, no dialogue twice. The expert makes a mistake at ${percent(recipe.noise)} of its actions (a wrong id, broken JSON, a skipped
step, giving up, ...), which the model reads and does not learn; it learns how the expert recovers. One row of sixteen is a drill: numbers
compared with the limits of the guidelines.

\`\`\`
${command}
\`\`\`

makes these files again, from seed ${recipe.seed} on ${recipe.threads} threads: ${count(copying.tokens)} tokens of copying exercises, then ${count(clonedTokens)} tokens of dialogues
(guidelines and tools not counted), ${cloning.dialoguesPerStep.withoutPrompt} a step before the model sees guidelines and tools and ${cloning.dialoguesPerStep.withPrompt} after, AdamW at ${cloning.learningRate}. Hosts whose processors round fused
multiplications in another way get other last bits.

## What it does

Measured on the weights of this folder, on *validation* tasks of version ${worldVersion} of the bookshop: no id, name, title or address of them occurs in training.

| ${episodes?.tasks ?? 0} validation tasks | temperature 1 | greedily |
| --- | --- | --- |
| pass rate | ${percent(episodes?.passRate)} | ${percent(greedy?.passRate)} |
${kinds.map((kind) => `| pass rate of "${kind}" | ${percent(episodes?.passRateByKind[kind])} | ${percent(greedy?.passRateByKind[kind])} |`).join("\n")}
| rule violations per episode | ${episodes?.ruleViolations.toFixed(3) ?? "-"} | ${greedy?.ruleViolations.toFixed(3) ?? "-"} |
| refused tool calls per episode | ${episodes?.toolErrors.toFixed(3) ?? "-"} | ${greedy?.toolErrors.toFixed(3) ?? "-"} |

| clean dialogues | |
| --- | --- |
| tokens of digits (ids, amounts, days) that it holds likelier than not, in clean dialogues | ${percent(likelihood?.copyAccuracy)} |
| nats per token in clean dialogues | ${likelihood?.nll.toFixed(3) ?? "-"} |

The curve (\`training-log.csv\` has all of it):

| phase | tokens | nats per token | digits | pass rate |
| --- | --- | --- | --- | --- |
${evaluated.map((row) => `| ${row.phase} | ${count(row.tokens)} | ${row.likelihood?.nll.toFixed(3)} | ${percent(row.likelihood?.copyAccuracy)} | ${percent(row.episodes?.passRate)} |`).join("\n")}
`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en-US");
}
