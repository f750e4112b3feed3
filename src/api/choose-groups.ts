// Groups that a rollout keeps, and how many it runs, from its settings: filters by name or from a
// module, the quota, the curriculum; and their graders: only the environment, or models as well
// (`model-grading.ts`). Settings that conflict or have no effect are refused here, before a server
// is contacted.

import {
  ConfigurationError,
  type EnvironmentSource,
  type Grading,
  type EngineLoadSource,
  type EpisodeHolder,
} from "../core/index.ts";
import type { GradingContext } from "./model-grading.ts";
import {
  type RolloutSettings,
  type ConcurrencyValue,
  type SettingName,
  concurrencyBounds,
  rolloutSettings,
} from "./rollout-settings.ts";
import { keyOf, milliseconds } from "../parts/setting.ts";
import { resolve } from "node:path";
import {
  type AdaptiveConcurrency,
  createCurriculum,
  dropZeroSignal,
  type GroupFilter,
  keepRewardRange,
  minGradedToTrain,
  type RolloutOptions,
  type RolloutPlan,
  type TaskRecord,
} from "../rollout/loop.ts";
import type { Surroundings } from "./surroundings.ts";
import { meant } from "../lib/nearest.ts";

export type GroupOptions = Required<Pick<RolloutOptions, "groups" | "quota">> & Pick<RolloutOptions, "tasks">;

/** Settings that have an effect only if a number of groups is requested. */
const needGroups = ["oversample", "keepOrder", "maxGroups", "curriculum"] as const satisfies readonly SettingName[];

/** Throws a `ConfigurationError` for settings that the user can correct. */
export async function chooseGroups(
  settings: RolloutSettings,
  plan: RolloutPlan,
  options: Pick<Surroundings, "cwd" | "parts"> & { readonly environment: string },
): Promise<GroupOptions> {
  const { groups, groupSize, replacements, groupTimeout, groupCutoff, oversample, keepOrder } = settings;
  const lonely = needGroups.find((name) => settings[name] !== rolloutSettings[name].default);
  if (groups === null && lonely !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(lonely)}: it only applies to a requested number of groups; pass --groups <n>.`,
    );
  }
  const minGroup = settings.minGroup ?? (groups === null ? 1 : minGradedToTrain(groupSize));
  if (minGroup > groupSize) {
    throw new ConfigurationError(
      `Cannot keep groups of at least ${minGroup} graded episodes: each group has ${groupSize}; lower --min-group or raise --group-size.`,
    );
  }
  const maxGroups = settings.maxGroups ?? (groups === null ? Infinity : 8 * groups);
  if (groups !== null && maxGroups < groups) {
    throw new ConfigurationError(
      `Cannot keep ${groups} groups: at most ${maxGroups} are tried; raise --max-groups or lower --groups.`,
    );
  }
  const cutoff = groupTimeout === null ? null : ({ afterMs: milliseconds(groupTimeout), policy: groupCutoff } as const);
  const filters = options.parts?.filter ?? (await chooseFilters(settings, options.cwd));
  const quota = { target: groups, oversample, order: keepOrder, maxGroups };
  const policy = { filters, minGraded: minGroup, replacements, cutoff };
  if (settings.curriculum === null) return { groups: policy, quota };
  const { taskIndexes, seed } = plan;
  const known = settings.curriculum === "on" ? [] : await passRates(settings.curriculum, plan, options);
  return { groups: policy, quota, tasks: createCurriculum({ taskIndexes, seed, known }) };
}

/**
 * A number, or bounds between which the concurrency adapts to the load that servers report; never
 * more than an engine that keeps the state of episodes holds.
 */
export function concurrencyOf(
  value: ConcurrencyValue,
  engine: Partial<EngineLoadSource & EpisodeHolder> | null,
): number | AdaptiveConcurrency {
  const bounds = concurrencyBounds(value);
  const most = engine?.mostEpisodes ?? Infinity;
  const [floor, ceiling] = [Math.min(bounds.floor, most), Math.min(bounds.ceiling, most)];
  const load = engine?.load === undefined ? null : (engine as EngineLoadSource);
  return floor === ceiling ? floor : { floor, ceiling, load };
}

async function chooseFilters({ filter, groupSize }: RolloutSettings, cwd: string): Promise<GroupFilter[]> {
  if (filter === null) return [];
  return Promise.all(
    filter.split(",").map(async (part) => {
      const name = part.trim();
      if (name === "zero-signal") {
        if (groupSize > 1) return dropZeroSignal();
        throw new ConfigurationError(
          "Cannot filter by zero-signal: a group of one episode has nothing to compare; set --group-size to at least 2.",
        );
      }
      const [, min, max] = /^reward-range:(-?[\d.]+)-(-?[\d.]+)$/.exec(name) ?? [];
      if (Number(min) <= Number(max)) return keepRewardRange({ min: Number(min), max: Number(max) });
      if (/^(\.|\/)|\.[cm]?[jt]s$/.test(name)) return loadFilter(name, cwd);
      throw new ConfigurationError(
        `Cannot filter groups by "${name}": there are zero-signal and reward-range:<min>-<max>, like reward-range:0.1-0.9; or name a module like ./filter.ts.${meant(name.split(":")[0]!, ["zero-signal", "reward-range"])}`,
      );
    }),
  );
}

async function loadFilter(name: string, cwd: string): Promise<GroupFilter> {
  const { importDefault } = await import("./load-environment.ts");
  const exported = await importDefault(name, { cwd, what: "filter", flag: "--filter" });
  if (typeof exported !== "function") {
    throw new ConfigurationError(
      `Cannot use "${name}" as a filter: its default export is not a function; export one that takes a group and returns the reason for dropping it, or null.`,
    );
  }
  const judge = exported as (...given: Parameters<GroupFilter>) => unknown;
  return (group) => {
    const reason = judge(group);
    if (reason === null || (typeof reason === "string" && reason !== "")) return reason;
    throw new ConfigurationError(
      `Cannot filter group ${group.groupIndex} by "${name}": it returned ${JSON.stringify(reason) ?? "undefined"}, expected the reason for dropping the group as a string, or null.`,
    );
  };
}

/** Pass rates that an earlier run measured on the tasks of this run. */
async function passRates(
  folder: string,
  { taskset, taskIndexes }: RolloutPlan,
  { cwd, environment }: { readonly cwd: string; readonly environment: string },
): Promise<TaskRecord[]> {
  const indexOf = new Map(taskIndexes.map((taskIndex) => [taskset.task(taskIndex).id, taskIndex]));
  const rates = new Map<number, TaskRecord>();
  const { openRunFolder } = await import("../store/index.ts");
  const run = openRunFolder(resolve(cwd, folder));
  // The reader refuses a folder that does not hold a run.
  await run.manifest();
  for await (const { taskId, rewards, reason } of run.groups()) {
    const taskIndex = indexOf.get(taskId);
    if (taskIndex === undefined) continue;
    const { visits, graded, passed } = rates.get(taskIndex) ?? { visits: 0, graded: 0, passed: 0 };
    const known = rewards.filter((reward) => reward !== null);
    const isCancelled = known.length === 0 && (reason === "surplus" || reason === "stale");
    rates.set(taskIndex, {
      taskIndex,
      visits: visits + (isCancelled ? 0 : 1),
      graded: graded + known.length,
      passed: passed + known.filter((reward) => reward >= 1 - 1e-6).length,
    });
  }
  if (rates.size === 0) {
    throw new ConfigurationError(
      `Cannot start a curriculum from "${folder}": it has no decided groups of these tasks of ${environment}; name a run of these tasks, or use --curriculum on.`,
    );
  }
  return [...rates.values()];
}

/** Settings that have no effect without a grader. */
const ofGraders = [
  "environmentWeight",
  "judgeCache",
  "judgeModel",
  "judgeUrl",
  "judgeApiKeyEnv",
  "judgeAuthorizationEnv",
] as const;

/**
 * The settings of an evaluation: it compares no episodes, and its judge may serve only to attribute
 * failures.
 */
export function gradingOfEvaluation(
  settings: RolloutSettings,
  { graders, needsJudge }: EnvironmentSource,
): RolloutSettings {
  const types = (graders?.use ?? []).map(({ type }) => type);
  const isRanked = settings.ranking !== null || types.includes("ranking");
  const isJudged = settings.rubric !== null || types.includes("rubric") || needsJudge !== undefined;
  const unjudged = { judgeModel: null, judgeUrl: null, judgeApiKeyEnv: null, judgeAuthorizationEnv: null };
  return { ...settings, ranking: isRanked ? "off" : null, ...(isJudged ? {} : unjudged) };
}

/** The message about tasks that only a judge can grade, if none is configured; `null` otherwise. */
export function missingJudge(
  grading: Grading | null,
  { needsJudge }: EnvironmentSource,
  { taskset, taskIndexes }: Pick<RolloutPlan, "taskset" | "taskIndexes">,
): string | null {
  if (grading !== null || needsJudge === undefined) return null;
  const count = taskIndexes.filter((index) => needsJudge(taskset.task(index))).length;
  if (count === 0) return null;
  return (
    `Note: ${count} of ${taskIndexes.length} tasks are graded by a judge's word, and there is no judge: their episodes have no reward; ` +
    "pass --judge-model, or choose other tasks with --tasks."
  );
}

/**
 * The grading of a rollout; `null` if only the environment grades. Throws a `ConfigurationError`
 * for settings that the user can correct.
 */
export async function chooseGrading(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: GradingContext,
): Promise<Grading | null> {
  if (!hasGraders(settings, environment, context)) {
    const asks = environment.needsJudge !== undefined;
    const unread = ofGraders.find((name) => settings[name] !== null && !(asks && name !== "environmentWeight"));
    if (unread !== undefined) {
      throw new ConfigurationError(
        `Cannot use --${keyOf(unread)}: no model grades, so it would have no effect; pass --rubric or --ranking, or remove it.`,
      );
    }
    const isNamed = ofGraders.some((name) => settings[name] !== null) || context.parts?.judgeModel !== undefined;
    if (!asks || !isNamed) return null;
  }
  const { gradingByModels } = await import("./model-grading.ts");
  return gradingByModels(settings, environment, context);
}

/** True if a rubric or a ranking is given, or the environment is defined with one. */
function hasGraders(
  { rubric, ranking }: RolloutSettings,
  { graders }: EnvironmentSource,
  { parts }: Pick<Surroundings, "parts">,
): boolean {
  const types = (graders?.use ?? []).map(({ type }) => type);
  const isRanked = ranking === "off" ? false : ranking !== null || types.includes("ranking");
  return parts?.ranking !== undefined || isRanked || rubric !== null || types.includes("rubric");
}
