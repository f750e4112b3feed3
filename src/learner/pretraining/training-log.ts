// The published curve of a run, one line for each examination and some between. No times: the same recipe writes the same
// file again.

import { type Kind, kinds } from "../../environments/bookshop/index.ts";
import type { PlayScore, ReadScore } from "./examine.ts";

export type LogRow = {
  readonly phase: "copying" | "cloning" | "rounded";
  readonly step: number;
  /** Of this phase; guidelines and tools do not count. */
  readonly tokens: number;
  readonly learningRate: number;
  /** Of what was trained on since the last row; `null`: nothing was. */
  readonly training: ReadScore | null;
  /** Of clean dialogues of test tasks; `null`: not asked here. */
  readonly reading: ReadScore | null;
  /** Of test tasks played at temperature 1; `null`: not asked here. */
  readonly play: PlayScore | null;
};

const columns: readonly (readonly [name: string, value: (row: LogRow) => string])[] = [
  ["phase", ({ phase }) => phase],
  ["step", ({ step }) => String(step)],
  ["tokens", ({ tokens }) => String(tokens)],
  ["learning_rate", ({ learningRate }) => learningRate.toPrecision(4)],
  ["train_nll", ({ training }) => decimal(training?.nll)],
  ["train_accuracy", ({ training }) => decimal(training?.accuracy)],
  ["train_copy_accuracy", ({ training }) => decimal(training?.copyAccuracy)],
  ["test_nll", ({ reading }) => decimal(reading?.nll)],
  ["test_accuracy", ({ reading }) => decimal(reading?.accuracy)],
  ["test_copy_accuracy", ({ reading }) => decimal(reading?.copyAccuracy)],
  ["test_tasks", ({ play }) => (play === null ? "" : String(play.tasks))],
  ["pass_rate", ({ play }) => decimal(play?.passRate)],
  ...kinds.map((kind: Kind) => [`pass_${kind}`, ({ play }: LogRow) => decimal(play?.passRateByKind[kind])] as const),
  ["rule_violations", ({ play }) => decimal(play?.ruleViolations)],
  ["tool_errors", ({ play }) => decimal(play?.toolErrors)],
];

export function logAsCsv(rows: readonly LogRow[]): string {
  const lines = rows.map((row) => columns.map(([, value]) => value(row)).join(","));
  return `${[columns.map(([name]) => name).join(","), ...lines].join("\n")}\n`;
}

function decimal(value: number | undefined): string {
  return value === undefined ? "" : value.toFixed(4);
}
