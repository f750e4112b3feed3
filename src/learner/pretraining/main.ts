// `npm run make-model [-- --nano] [--to <folder>]`: makes a shipped checkpoint again. A run that was killed resumes from its last
// evaluation.

import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { shippedCheckpoint } from "../model/index.ts";
import { pretrain } from "./pretrain.ts";
import { recipes } from "./recipe.ts";
import type { LogRow } from "./model-folder.ts";

const usage = "Usage: npm run make-model [-- --nano] [--to <folder>]";
const started = performance.now();

process.exitCode = await main();

async function main(): Promise<number> {
  const { nano, to } = readFlags() ?? {};
  if (nano === undefined) return 2;
  const recipe = recipes[nano ? "bookshop-nano" : "bookshop-1m"];
  const folder = to === undefined ? shippedCheckpoint(recipe.name) : resolve(process.env["INIT_CWD"] ?? ".", to);
  const stateFolder = join(fileURLToPath(new URL("../../../build/pretrain/", import.meta.url)), recipe.name);
  const score = await pretrain(recipe, { folder, stateFolder, report });
  process.stdout.write(
    `${recipe.name} passes ${percent(score?.passRate)} of ${score?.tasks} validation tasks; written to ${folder}\n`,
  );
  return 0;
}

function readFlags(): { readonly nano: boolean; readonly to: string | undefined } | null {
  try {
    const { values } = parseArgs({ options: { nano: { type: "boolean", default: false }, to: { type: "string" } } });
    return { nano: values.nano, to: values.to };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`);
    return null;
  }
}

function report({ phase, step, tokens, training, likelihood, episodes, greedy }: LogRow): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  const parts = [
    `${seconds.padStart(5)} s  ${phase} step ${step}, ${tokens} tokens`,
    training === null ? "" : `train ${training.nll.toFixed(3)} nats, digits ${percent(training.copyAccuracy)}`,
    likelihood === null ? "" : `test ${likelihood.nll.toFixed(3)} nats, digits ${percent(likelihood.copyAccuracy)}`,
    episodes === null
      ? ""
      : `passes ${percent(episodes.passRate)} of ${episodes.tasks}: ${kindsOf(episodes.passRateByKind)}`,
    greedy === null ? "" : `greedily ${percent(greedy.passRate)}: ${kindsOf(greedy.passRateByKind)}`,
  ];
  process.stdout.write(`${parts.filter((part) => part !== "").join("; ")}\n`);
}

function kindsOf(rates: Readonly<Record<string, number>>): string {
  return Object.entries(rates)
    .map(([kind, rate]) => `${kind} ${percent(rate)}`)
    .join(", ");
}

function percent(share: number | undefined): string {
  return share === undefined ? "-" : `${(share * 100).toFixed(1)} %`;
}
