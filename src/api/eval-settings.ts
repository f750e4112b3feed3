// What an evaluation is told beside the settings of a rollout. A catalogue, like `rollout-settings.ts`; these are flags alone,
// for they say how results are looked at, not how episodes are played.

import { z } from "zod";
import { type Setting, setting, text, whole } from "./setting.ts";

const group = "Evaluation";
const words = z.preprocess(
  (value) =>
    (Array.isArray(value) ? value : [value]).map((one: unknown) => (typeof one === "number" ? String(one) : one)),
  z.array(z.string()).transform((list) => list.flatMap((word) => word.split(",")).filter((word) => word !== "")),
) as z.ZodType<readonly string[]>;

const wholes: z.ZodType<readonly number[]> = words
  .transform((list) => list.map(Number))
  .refine((list) => list.length > 0 && list.every((k) => Number.isInteger(k) && k >= 1));

export const evalSettings = {
  trials: setting<number | null>({
    group,
    flag: "--trials <k>",
    help: "episodes of each task (default: --samples-per-task of a configuration file, or 1)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  taskIds: setting<readonly string[] | null>({
    group,
    flag: "--task-ids <ids...>",
    help: "tasks by index or id, instead of --tasks",
    wanted: "indexes or ids of tasks",
    schema: words.nullable(),
    default: null,
  }),
  shuffle: setting<boolean>({
    group,
    flag: "--shuffle",
    help: "play the tasks in an order drawn from the seed",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),
  passK: setting<readonly number[] | null>({
    group,
    flag: "--pass-k <list>",
    help: "for which k pass^k and pass@k are computed, like 1,2,4 (default: every k up to the trials)",
    wanted: "a list like 1,2,4",
    schema: wholes.nullable(),
    default: null,
  }),
  format: setting<"summary" | "tau-bench">({
    group,
    flag: "--format <name>",
    help: "of results.json: summary, or tau-bench, upstream's list of runs (default: summary)",
    wanted: "summary or tau-bench",
    schema: z.enum(["summary", "tau-bench"]),
    default: "summary",
  }),
  from: setting<string | null>({
    group,
    flag: "--from <file|folder>",
    help: "play nothing: score a run folder, or a result file of upstream (with --env and --data), whose rewards are checked",
    wanted: "a file or a folder",
    schema: text.nullable(),
    default: null,
  }),
  labels: setting<string | null>({
    group,
    flag: "--labels <file>",
    help: "compare the attribution of failures with labels given by hand",
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),
  judgeModel: setting<string | null>({
    group,
    flag: "--judge-model <name>",
    help: "model that attributes the failures which no rule explains: provider/model, or its name at --judge-url (default: none)",
    wanted: "the name of a model",
    schema: text.nullable(),
    default: null,
  }),
  judgeUrl: setting<string | null>({
    group,
    flag: "--judge-url <address>",
    help: "OpenAI-compatible server of that model",
    wanted: "an address like http://127.0.0.1:8000/v1",
    schema: text.nullable(),
    default: null,
  }),
  judgeApiKeyEnv: setting<string | null>({
    group,
    flag: "--judge-api-key-env <variable>",
    help: "environment variable with its key",
    wanted: "the name of an environment variable",
    schema: text.nullable(),
    default: null,
  }),
} as const;

export type EvalSettings = {
  readonly [Name in keyof typeof evalSettings]: (typeof evalSettings)[Name] extends Setting<infer T> ? T : never;
};

export const evalSettingNames = Object.keys(evalSettings) as (keyof EvalSettings)[];
