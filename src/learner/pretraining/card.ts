// The card of a model: what it is, what it was trained on, how well it does, and the command that makes it again.

import { kinds } from "../../environments/bookshop/index.ts";
import { type ModelConfig, parameterLayout } from "../model/index.ts";
import type { Recipe } from "./recipe.ts";
import type { LogRow } from "./training-log.ts";

export function cardOf(run: {
  readonly recipe: Recipe;
  readonly config: ModelConfig;
  readonly rows: readonly LogRow[];
}): string {
  const { recipe, config, rows } = run;
  const { cloning, copying } = recipe;
  const last = rows.at(-1);
  const { play = null, reading = null } = last ?? {};
  const clonedTokens = rows.findLast(({ phase }) => phase === "cloning")?.tokens ?? 0;
  const examined = rows.filter((row) => row.phase !== "rounded" && row.reading !== null);
  const percent = (share: number | undefined): string => (share === undefined ? "-" : `${(share * 100).toFixed(1)} %`);
  const command = recipe.name === "bookshop-nano" ? "npm run make-model -- --nano" : "npm run make-model";
  const million = (parameterLayout(config).size / 1e6).toFixed(2);
  const { layers, heads, keyValueHeads, headSize, hiddenSize, feedForwardSize, vocabularySize } = config;
  return `# ${recipe.name}

A language model of ${million} million parameters that plays the night desk of the bookshop in this package: it calls tools and
talks to simulated members. It knows this one job, in English, and nothing else. It is where \`train\` begins.

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
step, giving up, ...), so the clone has something to unlearn by reinforcement learning.

\`\`\`
${command}
\`\`\`

makes these files again, from seed ${recipe.seed} on ${recipe.threads} threads: ${count(copying.tokens)} tokens of copying exercises, then ${count(clonedTokens)} tokens of dialogues
(guidelines and tools not counted), ${cloning.dialoguesPerStep.withoutPrompt} a step before the model sees guidelines and tools and ${cloning.dialoguesPerStep.withPrompt} after, AdamW at ${cloning.learningRate}. Hosts whose processors round fused
multiplications in another way get other last bits.

## What it does

Measured on the weights of this folder, on *test* tasks: no id, name, title or address of them occurs in training.

| ${play?.tasks ?? 0} test tasks, temperature 1 | |
| --- | --- |
| pass rate | ${percent(play?.passRate)} |
${kinds.map((kind) => `| pass rate of "${kind}" | ${percent(play?.passRateByKind[kind])} |`).join("\n")}
| rule violations per episode | ${play?.ruleViolations.toFixed(3) ?? "-"} |
| refused tool calls per episode | ${play?.toolErrors.toFixed(3) ?? "-"} |
| tokens of digits (ids, amounts, days) that it holds likelier than not, in clean dialogues | ${percent(reading?.copyAccuracy)} |
| nats per token in clean dialogues | ${reading?.nll.toFixed(3) ?? "-"} |

The curve (\`training-log.csv\` has all of it):

| phase | tokens | nats per token | digits | pass rate |
| --- | --- | --- | --- | --- |
${examined.map((row) => `| ${row.phase} | ${count(row.tokens)} | ${row.reading?.nll.toFixed(3)} | ${percent(row.reading?.copyAccuracy)} | ${percent(row.play?.passRate)} |`).join("\n")}
`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en-US");
}
