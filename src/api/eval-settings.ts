// The table of what an evaluation has beside the settings of a rollout. Flags alone: they say how results are read, not how
// episodes are run.

import { z } from "zod";
import { type SettingValues, choice, custom, flag, section, text, whole } from "./setting.ts";

const list = z.preprocess(
  (value) => (typeof value === "string" || typeof value === "number" ? [String(value)] : value),
  z
    .array(z.union([z.string(), z.number()]).transform(String))
    .transform((entries) => entries.flatMap((entry) => entry.split(",")).filter((entry) => entry !== "")),
) as z.ZodType<readonly string[]>;

const wholes: z.ZodType<readonly number[]> = list
  .transform((entries) => entries.map(Number))
  .refine((entries) => entries.length > 0 && entries.every((k) => Number.isInteger(k) && k >= 1));

export const evalSettings = section("Evaluation", {
  trials: whole("<k>", "episodes of each task (default: --group-size of a configuration file, or 1)", null),
  taskIds: custom(
    ...(["<ids...>", "tasks by index or id, instead of --tasks", null, "indexes or ids of tasks"] as const),
    list.nullable(),
  ),
  shuffle: flag("run the tasks in an order drawn from the seed"),
  passK: custom(
    "<list>",
    "for which k pass^k and pass@k are computed, like 1,2,4 (default: every k up to the trials)",
    null,
    "a list like 1,2,4",
    wholes.nullable(),
  ),
  format: choice(
    "<name>",
    "of results.json: summary, or tau-bench, upstream's list of runs (default: summary)",
    ["summary", "tau-bench"],
    "summary",
  ),
  from: text(
    "<file|folder>",
    "run nothing: score a run folder, or a result file of upstream (with --env and --data), whose rewards are checked",
    null,
    "a file or a folder",
  ),
  labels: text("<file>", "compare the attribution of failures with labels given by hand", null, "a file"),
  judgeModel: text(
    "<name>",
    "model that attributes the failures which no rule explains: provider/model, or its name at --judge-url (default: none)",
    null,
    "the name of a model",
  ),
  judgeUrl: text(
    "<address>",
    "OpenAI-compatible server of that model",
    null,
    "an address like http://127.0.0.1:8000/v1",
  ),
  judgeApiKeyEnv: text("<variable>", "environment variable with its key", null, "the name of an environment variable"),
});

export type EvalSettings = SettingValues<typeof evalSettings>;
