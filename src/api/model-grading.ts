// Models that grade in a rollout: rubrics and a ranking from the settings, or else those that the
// environment was defined with, and the judge that they call.

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
import { pricesOf, ratesOf } from "./budget.ts";
import { importDefault } from "./load-environment.ts";
import { concurrencyBounds, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import { readNamedFile, type Surroundings } from "./surroundings.ts";
import { milliseconds } from "../parts/setting.ts";

export type GradingContext = Surroundings & {
  readonly redact: (text: string) => string;
  /**
   * Number of episodes in a group; `null` if each request has a size of its own.
   * @default that of the settings
   */
  readonly groupSize?: number | null;
};

/**
 * Graders by models; without a rubric and a ranking, only the judge that the environment needs.
 * Throws a `ConfigurationError`.
 */
export async function gradingByModels(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: GradingContext,
): Promise<Grading> {
  const chosen = await chooseGraders(settings, environment, context);
  if (chosen !== null) check({ groupSize: settings.groupSize, ...context }, settings, chosen);
  const judge = context.parts?.judgeModel ?? (await chooseJudge(settings, context));
  const { environmentWeight, rubrics, ranking } = chosen ?? { environmentWeight: null, rubrics: [], ranking: null };
  return {
    judge,
    environmentWeight,
    graders: rubrics.map((rubric) => rubricGrader(rubric, judge)),
    ranker: ranking === null ? null : groupRanker(ranking, judge),
  };
}

/** The choice of graders, before the judge is known. */
type Graders = {
  readonly environmentWeight: number | null;
  readonly rubrics: readonly Rubric[];
  readonly ranking: Ranking | null;
};

/** Returns `null` if only the environment grades. Throws a `ConfigurationError`. */
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
    // If the environment grades nothing itself, a weight for its grade would count a zero.
    environmentWeight: gradeWeight === null ? null : (environmentWeight ?? gradeWeight),
  };
}

function check(
  { groupSize }: { readonly groupSize?: number | null },
  { faultPolicy }: RolloutSettings,
  { environmentWeight, rubrics, ranking }: Graders,
): void {
  if (ranking !== null && (groupSize ?? 2) < 2) {
    throw new ConfigurationError(
      "Cannot rank groups of one episode: there is nothing to compare; pass --group-size of at least 2, or --ranking off.",
    );
  }
  if (ranking !== null && faultPolicy !== "keep") {
    throw new ConfigurationError(
      `Cannot use --fault-policy ${faultPolicy} with a ranking: whether an episode failed is not known before its group is ranked; remove one of them.`,
    );
  }
  const weights = [environmentWeight ?? 0, ...rubrics.map(({ weight }) => weight), ranking?.weight ?? 0];
  if (weights.every((weight) => weight === 0)) {
    throw new ConfigurationError(
      "Cannot grade: every weight is 0, so there is no reward; give a rubric, the ranking or --environment-weight a weight above 0.",
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

/**
 * Modules are JavaScript as often as TypeScript, so a value that claims to be a rubric is checked
 * again.
 */
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
      "Cannot create a judge: no model is named; pass --judge-model provider/model, or --judge-url <address> and --judge-model <its name there>.",
    );
  }
  const { apiKey, authorization } = readAccess("judge", settings, variables);
  return createJudge({
    model,
    variables,
    prices: pricesOf(settings, cwd),
    timeoutMs: milliseconds(gradingTimeout),
    maxConcurrency: concurrencyBounds(concurrency).ceiling,
    ...ratesOf(settings, context),
    // Some models have a fixed temperature and refuse requests that set it.
    sampling: judgeTemperature === 1 ? {} : { temperature: judgeTemperature },
    ...(url === null ? {} : { url }),
    ...(apiKey === null ? {} : { apiKey }),
    authorization,
    ...(cache === null ? {} : { cache }),
  });
}
