// The models that grade in a rollout: rubrics and a ranking of the settings, or else those that the environment was defined with,
// and the judge that they ask. What does not go together is refused here, before a server is contacted.

import { resolve } from "node:path";
import {
  ConfigurationError,
  type EnvironmentSource,
  type Grading,
  type Judge,
  messageOf,
  type Ranking,
  type Rubric,
} from "../core/index.ts";
import {
  createJudge,
  defineRanking,
  defineRubric,
  groupRanker,
  openJudgeCache,
  type JudgedDefinition,
  replayingJudge,
  type RubricDefinition,
  rubricGrader,
} from "../graders/index.ts";
import type { RolloutPlan } from "../rollout/index.ts";
import { pricesOf, ratesOf } from "./budget.ts";
import { importDefault } from "./load-environment.ts";
import { concurrencyBounds, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import { keyOf } from "./setting.ts";
import { readNamedFile, type Surroundings } from "./surroundings.ts";

/** What grades, before it is known who. */
type Graders = {
  readonly environmentWeight: number | null;
  readonly rubrics: readonly Rubric[];
  readonly ranking: Ranking | null;
};

/** Settings that nothing reads without a grader. */
const ofGraders = [
  "environmentWeight",
  "judgeCache",
  "judgeModel",
  "judgeUrl",
  "judgeApiKeyEnv",
  "judgeAuthorizationEnv",
] as const;

/** `null`: the environment grades alone. Throws a `ConfigurationError`. */
async function chooseGraders(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: Surroundings,
): Promise<Graders | null> {
  const { gradeWeight = 0, use = [] } = environment.graders ?? {};
  const { rubric, environmentWeight } = settings;
  const ranking = await chooseRanking(settings, use, context);
  const defined = use.filter((one) => one.type === "rubric").map(madeRubric);
  const rubrics = rubric === null ? defined : [await loadRubric(rubric, context)];
  if (rubrics.length === 0 && ranking === null) return null;
  return {
    rubrics,
    ranking,
    // A weight of the environment's own grade, where it has none, would make a zero count.
    environmentWeight: gradeWeight === null ? null : (environmentWeight ?? gradeWeight),
  };
}

/** The settings of an evaluation: it compares no episodes, and its judge may be there for the attribution of failures alone. */
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

/** What is said of tasks that have no grade without a judge, where there is none; `null`: nothing. */
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
    "give --judge-model, or choose other tasks with --tasks."
  );
}

/** The grading of a rollout; `null`: the environment grades alone. Throws a `ConfigurationError` for what the user can correct. */
export async function chooseGrading(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: Surroundings & {
    readonly redact: (text: string) => string;
    /** Of a group; `null`: requests say it. Default: that of the settings. */
    readonly groupSize?: number | null;
  },
): Promise<Grading | null> {
  const chosen = await chooseGraders(settings, environment, context);
  if (chosen === null) {
    const asks = environment.needsJudge !== undefined;
    const unread = ofGraders.find((name) => settings[name] !== null && !(asks && name !== "environmentWeight"));
    if (unread !== undefined) {
      throw new ConfigurationError(
        `Cannot use --${keyOf(unread)}: no model grades, so nothing would read it; give --rubric or --ranking, or leave it out.`,
      );
    }
    const isNamed = ofGraders.some((name) => settings[name] !== null) || context.parts?.judgeModel !== undefined;
    if (!asks || !isNamed) return null;
  } else check({ groupSize: settings.groupSize, ...context }, settings, chosen);
  const judge = context.parts?.judgeModel ?? (await chooseJudge(settings, context));
  const { environmentWeight, rubrics, ranking } = chosen ?? { environmentWeight: null, rubrics: [], ranking: null };
  return {
    judge,
    environmentWeight,
    graders: rubrics.map((rubric) => rubricGrader(rubric, judge)),
    ranker: ranking === null ? null : groupRanker(ranking, judge),
  };
}

function check(
  { groupSize }: { readonly groupSize?: number | null },
  { faultPolicy }: RolloutSettings,
  { environmentWeight, rubrics, ranking }: Graders,
): void {
  if (ranking !== null && (groupSize ?? 2) < 2) {
    throw new ConfigurationError(
      "Cannot rank groups of one episode: there is nothing to compare; give --group-size of at least 2, or --ranking off.",
    );
  }
  if (ranking !== null && faultPolicy !== "keep") {
    throw new ConfigurationError(
      `Cannot use --fault-policy ${faultPolicy} with a ranking: whether an episode failed is not known before its group is ranked; leave one of both out.`,
    );
  }
  const weights = [environmentWeight ?? 0, ...rubrics.map(({ weight }) => weight), ranking?.weight ?? 0];
  if (weights.every((weight) => weight === 0)) {
    throw new ConfigurationError(
      "Cannot grade: every weight is 0, so nothing makes a reward; give a rubric, the ranking or --environment-weight a weight above 0.",
    );
  }
}

async function chooseRanking(
  { ranking }: RolloutSettings,
  use: readonly (Rubric | Ranking)[],
  { cwd, parts }: Surroundings,
): Promise<Ranking | null> {
  if (parts?.ranking !== undefined) return madeRanking(parts.ranking);
  if (ranking === "off") return null;
  if (ranking === "on") return defineRanking();
  if (ranking !== null) return defineRanking((await readDefinition(ranking, "ranking", cwd)) as JudgedDefinition);
  const defined = use.find((one) => one.type === "ranking");
  return defined === undefined ? null : madeRanking(defined);
}

async function loadRubric(name: string, { cwd, parts }: Surroundings): Promise<Rubric> {
  if (parts?.rubric !== undefined) return madeRubric(parts.rubric);
  const definition = await readDefinition(name, "rubric", cwd);
  const isMade = typeof definition === "object" && definition !== null && "type" in definition;
  return isMade ? madeRubric(definition as Rubric) : defineRubric(definition as RubricDefinition);
}

/** Modules are JavaScript as often as TypeScript: what says that it is a rubric is checked like any other. */
function madeRubric({ type: _type, ...definition }: Rubric): Rubric {
  return defineRubric(definition);
}

function madeRanking({ type: _type, name: _name, ...definition }: Ranking): Ranking {
  return defineRanking(definition);
}

/** The default export of a module, or the JSON of a file. */
async function readDefinition(name: string, what: "rubric" | "ranking", cwd: string): Promise<unknown> {
  if (/\.[cm]?[jt]s$/.test(name)) return importDefault(name, { cwd, what, flag: `--${what}` });
  const text = await readNamedFile(name, cwd, `correct --${what}.`);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new ConfigurationError(
      `Cannot read the ${what} "${name}": it is not JSON (${messageOf(error)}); correct the file, or name a module.`,
    );
  }
}

async function chooseJudge(
  settings: RolloutSettings,
  context: Surroundings & { readonly redact: (text: string) => string },
): Promise<Judge> {
  const { cwd, env: variables, redact } = context;
  const { judgeModel: model, judgeUrl: url, judgeTemperature, judgeCache, gradingTimeout, concurrency } = settings;
  const cache = judgeCache === null ? null : await openJudgeCache(resolve(cwd, judgeCache), { redact });
  if (model === null) {
    if (cache !== null && url === null) return replayingJudge(cache);
    throw new ConfigurationError(
      "Cannot make a judge: no model is named; give --judge-model provider/model, or --judge-url <address> and --judge-model <its name there>.",
    );
  }
  const { apiKey, authorization } = readAccess("judge", settings, variables);
  return createJudge({
    model,
    variables,
    prices: pricesOf(settings, cwd),
    timeoutMs: gradingTimeout * 1000,
    maxConcurrency: concurrencyBounds(concurrency).ceiling,
    ...ratesOf(settings, context),
    // Some models sample in one way alone and refuse to be told so.
    sampling: judgeTemperature === 1 ? {} : { temperature: judgeTemperature },
    ...(url === null ? {} : { url }),
    ...(apiKey === null ? {} : { apiKey }),
    authorization,
    ...(cache === null ? {} : { cache }),
  });
}
