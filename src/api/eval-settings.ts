// The table of evaluation settings besides those of a rollout. Flags only: they control how results
// are read, not how episodes are run.

import { z } from "zod";
import { readReports, type Report } from "./evaluation-report.ts";
import { choice, custom, file, flag, section, type SettingValues, whole } from "../parts/setting.ts";

const list = z.preprocess(
  (value) => (typeof value === "string" || typeof value === "number" ? [String(value)] : value),
  z
    .array(z.union([z.string(), z.number()]).transform(String))
    .transform((entries) => entries.flatMap((entry) => entry.split(",")).filter((entry) => entry !== "")),
) as z.ZodType<readonly string[]>;

const paths = z.preprocess(
  (value) => (typeof value === "string" ? [value] : value),
  z.array(z.string().min(1)).min(1),
) as z.ZodType<readonly string[]>;

const wholes: z.ZodType<readonly number[]> = list
  .transform((entries) => entries.map(Number))
  .refine((entries) => entries.length > 0 && entries.every((k) => Number.isInteger(k) && k >= 1));

const reportList = z
  .preprocess(
    (value) => (typeof value === "string" ? (readReports(value) ?? value) : value),
    z.array(z.object({ kind: z.enum(["junit", "markdown"]), file: z.string().min(1) })),
  )
  .nullable() as z.ZodType<readonly Report[] | null>;

export const evalSettings = section("Evaluation", {
  trials: whole(null, { value: "<k>" }).help("episodes per task (default: group-size of the configuration file, or 1)"),
  taskIds: custom("<ids...>", { default: null, expected: "indexes or ids of tasks", schema: list.nullable() }).help(
    "tasks by index or id, instead of --tasks",
  ),
  adapter: custom("<names...>", { default: null, expected: "names of adapters", schema: paths.nullable() }).help(
    "LoRA adapter that samples, by the name under which the server has it; several are run one after the other, each into its own folder, and compared task by task (default: none, the base samples)",
  ),
  shuffle: flag.help("run the tasks in an order drawn from the seed"),
  passK: custom("<list>", { default: null, expected: "a list like 1,2,4", schema: wholes.nullable() }).help(
    "values of k for pass^k and pass@k, like 1,2,4 (default: every k up to --trials)",
  ),
  format: choice("<name>", "summary", "tau-bench").help(
    "format of results.json: summary, or tau-bench for upstream's list of runs (default: summary)",
  ),
  from: custom("<file|folder...>", { default: null, expected: "files or folders", schema: paths.nullable() }).help(
    "run nothing; score existing results: a run folder, results of upstream's tau-bench (with --env and --data) or tau2-bench, whose rewards are checked, or a file of slime, verifiers, inspect or ATIF, whose rewards are used as they are; several give one table with a row for each environment",
  ),
  report: custom("<list>", {
    default: null,
    expected: "a list like junit:report.xml,markdown:report.md",
    schema: reportList,
  }).help("write a report for CI or a pull request: junit:<file>, markdown:<file>, or both, separated by a comma"),
  labels: file.help("file of labels given by hand, to compare with the attribution of failures"),
});

export type EvalSettings = SettingValues<typeof evalSettings>;
