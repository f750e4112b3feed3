// The settings that say which groups are kept and how many are played; part of the table in `rollout-settings.ts`.

import { z } from "zod";
import { number, type Setting, setting, text, whole } from "./setting.ts";

export type KeepOrder = "plan" | "finished";
export type GroupCutoff = "keep" | "drop";

export type GroupSettingTable = {
  readonly filter: Setting<string | null>;
  readonly minGroup: Setting<number | null>;
  readonly replacements: Setting<number>;
  readonly groups: Setting<number | null>;
  readonly oversample: Setting<number>;
  readonly keepOrder: Setting<KeepOrder>;
  readonly maxGroups: Setting<number | null>;
  readonly curriculum: Setting<string | null>;
  readonly groupTimeout: Setting<number | null>;
  readonly groupCutoff: Setting<GroupCutoff>;
};

export const groupSettings: GroupSettingTable = {
  filter: setting<string | null>({
    group: "Groups",
    flag: "--filter <list>",
    help: "drop groups: zero-signal (all rewards alike), reward-range:<min>-<max> (mean reward outside), or a module like ./filter.ts",
    wanted: "names of filters with commas between them",
    schema: text.nullable(),
    default: null,
  }),
  minGroup: setting<number | null>({
    group: "Groups",
    flag: "--min-group <n>",
    help: "graded episodes without which a group is dropped (default: 2 with --groups, whose groups are trained; else 1)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  replacements: setting<number>({
    group: "Groups",
    flag: "--replacements <n>",
    help: "further episodes a group may play in place of those that were not graded",
    wanted: "a whole number of at least 0",
    schema: whole(0, 1000),
    default: 0,
  }),
  groups: setting<number | null>({
    group: "Groups",
    flag: "--groups <n>",
    help: "play until so many groups are kept, tasks over again where they run out (default: each task once)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  oversample: setting<number>({
    group: "Groups",
    flag: "--oversample <factor>",
    help: "with --groups: so many times as many are under way at once; the rest is stopped when enough are kept",
    wanted: "a number from 1 to 100",
    schema: number({ min: 1, max: 100 }),
    default: 1,
  }),
  keepOrder: setting<KeepOrder>({
    group: "Groups",
    flag: "--keep-order <order>",
    help: "with --groups: keep the first of the plan (same seed, same run), or the first that finished (faster; prefers short episodes)",
    wanted: "plan or finished",
    schema: z.enum(["plan", "finished"]),
    default: "plan",
  }),
  maxGroups: setting<number | null>({
    group: "Groups",
    flag: "--max-groups <n>",
    help: "with --groups: groups to try before giving up (default: eight times as many)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  curriculum: setting<string | null>({
    group: "Groups",
    flag: "--curriculum <on|run>",
    help: "with --groups: draw tasks that are passed sometimes rather than always or never; a run folder says what is known of them",
    wanted: "on, or the folder of an earlier run",
    // YAML 1.1 files, and people, write true for on.
    schema: z.preprocess((value) => (value === true ? "on" : value), text.nullable()),
    default: null,
  }),
  groupTimeout: setting<number | null>({
    group: "Groups",
    flag: "--group-timeout <seconds>",
    help: "slow episodes of a group are cancelled so long after its last one began (default: they are waited for)",
    wanted: "a number of seconds above 0",
    schema: number({ above: 0, max: 2_000_000 }).nullable(),
    default: null,
  }),
  groupCutoff: setting<GroupCutoff>({
    group: "Groups",
    flag: "--group-cutoff <policy>",
    help: "what becomes of a group that ran into --group-timeout: keep what is there (at least --min-group), or drop it",
    wanted: "keep or drop",
    schema: z.enum(["keep", "drop"]),
    default: "keep",
  }),
};
