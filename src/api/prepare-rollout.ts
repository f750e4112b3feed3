// Turns settings into everything that a rollout needs, checked before a server is contacted or a
// folder is made. This is the composition root: implementations are chosen here and nowhere below.

import { resolve } from "node:path";
import {
  ConfigurationError,
  type Episode,
  type EpisodeSamples,
  type SamplingParams,
  type UserSource,
} from "../core/index.ts";
import { episodeSamples, type RankGroup, resumableRunner, type RolloutPlan } from "../rollout/loop.ts";
import type { EpisodeJournal } from "../store/index.ts";
import { addressesOf, type Preset, findPreset } from "./resolve-settings.ts";
import type { ApiModel } from "../chat-models/index.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";
import type { Surroundings } from "./surroundings.ts";
import { checkSplit, closeRemote, isTaskFile, loadEnvironment } from "./load-environment.ts";
import { agentProgram, type RolloutSettings, readTaskList } from "./rollout-settings.ts";
import { type ChosenModel, chooseModel } from "./choose-model.ts";
import { choosePolicy, type ConnectedPolicy, connectPolicy, type PolicyOptions, samplingOf } from "./choose-policy.ts";
import { chooseGrading, gradingOfEvaluation, missingJudge, chooseGroups, type GroupOptions } from "./choose-groups.ts";
import { chooseStrategy, chooseUser, recordUsers } from "./choose-user.ts";
import { areOwnServers } from "./choose-engine.ts";
import type { checkChatModel } from "./first-contact.ts";
import { accessVariables, readAccess, redactorFor } from "./secrets.ts";
import type { ToolNames } from "./tool-names.ts";
import { milliseconds } from "../parts/setting.ts";

export type ConnectOptions = PolicyOptions & {
  /** Address of a server other than that of the settings, with the same model. */
  readonly url?: string;
};

export type PreparedRollout = {
  /** The settings, with every open choice decided. */
  readonly settings: RolloutSettings;
  readonly environment: LoadedEnvironment["source"];
  readonly plan: RolloutPlan;
  /** Rules for keeping groups, and the number of groups to run. */
  readonly groups: GroupOptions;
  readonly sampling: SamplingParams;
  /** Name for people, such as "engine sglang". */
  readonly policyTitle: string;
  /**
   * Answers the calls of outside programs in place of an engine; `null` if an engine does, or if
   * none of our models is called.
   */
  readonly apiModel: ApiModel | null;
  /** Name in run.json of the evaluated model behind an API; `null` if there is none. */
  readonly agentName: string | null;
  /** `null` if the agent is behind an API, so that tokens are unknown. */
  readonly model: ChosenModel | null;
  readonly user: UserSource;
  readonly preset: Preset | null;
  /** Compares the episodes of a group; `null` if each keeps the reward of its own grade. */
  readonly rank: RankGroup | null;
  /** The training rows of a stored episode, with the fault policy applied. */
  readonly rowsOf: (episode: Episode) => Promise<EpisodeSamples>;
  readonly redact: (text: string) => string;
  /**
   * Reports tools that the call format cannot write, each once: those of the first task, if its
   * environment is in this process. `connect` does so as well, and reports the others when they are
   * shown.
   */
  readonly examineTools: (onNotice: (message: string) => void) => Promise<ToolNames | null>;
  /**
   * Contacts the server. Rejects with a `ConfigurationError` when it does not answer. Episodes
   * resume from the journal, and every event is recorded in it; a preset's loop keeps no journal.
   */
  connect(cancel: AbortSignal, journal: EpisodeJournal, options?: ConnectOptions): Promise<ConnectedPolicy>;
  /**
   * Ends resources that the environment keeps besides its episodes, such as waiting processes; a
   * source that the caller gave stays open.
   */
  close(): Promise<void>;
};

export type PrepareOptions = {
  readonly resumes?: boolean;
  /**
   * Origin of the groups: "planned" by the settings; "evaluated", which are not compared;
   * "requested" with a size of their own; or "outside", run by programs that grade them.
   */
  readonly groups?: "planned" | "evaluated" | "requested" | "outside";
};

/**
 * Throws a `ConfigurationError` for settings that the user can correct, after closing what it
 * opened. `resumes`: an earlier process began the run. Default: false.
 */
export async function prepareRollout(
  requested: RolloutSettings,
  context: Surroundings,
  { resumes = false, groups = "planned" }: PrepareOptions = {},
): Promise<PreparedRollout> {
  const { prices, maxCost, metrics, metricsAuthorizationEnv } = requested;
  if ((prices ?? maxCost) !== null) (await import("./budget.ts")).checkBudget(requested, context.cwd);
  if ((metrics ?? metricsAuthorizationEnv) !== null) (await import("./watch-run.ts")).checkMetrics(requested);
  const preset = findPreset(requested.preset);
  if (preset !== null && requested.faultPolicy !== "keep") {
    throw new ConfigurationError(
      `Cannot use --fault-policy ${requested.faultPolicy} with preset "${requested.preset}": a preset fixes how samples are made; remove one of them.`,
    );
  }
  if (preset !== null && resumes) {
    throw new ConfigurationError(
      `Cannot resume a run of preset "${requested.preset}": its loop does not journal its episodes; start a new run.`,
    );
  }
  // A killed process may have left programs that still run and sample although their results are
  // lost.
  if (agentProgram(requested) !== null) (await import("../programs/index.ts")).killOrphans();
  const limits = {
    environmentMs: milliseconds(requested.environmentTimeout),
    graderMs: milliseconds(requested.gradingTimeout),
  };
  const loaded = await loadEnvironment(requested.env, {
    settings: requested,
    split: requested.split,
    limits,
    openMs: milliseconds(requested.openTimeout),
    ...context,
  });
  const close = async (): Promise<void> => {
    if (context.parts?.env === undefined) await closeRemote(loaded.source);
  };
  try {
    return { ...(await prepareWith(loaded, { requested, context, preset, resumes, groups })), close };
  } catch (error) {
    await close();
    throw error;
  }
}

type Requested = Required<PrepareOptions> & {
  readonly requested: RolloutSettings;
  readonly context: Surroundings;
  readonly preset: Preset | null;
};

async function prepareWith(
  loaded: LoadedEnvironment,
  { requested, context, preset, resumes, groups }: Requested,
): Promise<Omit<PreparedRollout, "close">> {
  const environment = loaded.source;
  const given = groups === "evaluated" ? gradingOfEvaluation(requested, environment) : requested;
  const program = agentProgram(given);
  if (isTaskFile(environment) && program === null) {
    throw new ConfigurationError(
      `Cannot run "${given.env}": it is a file of tasks, whose world belongs to a program; pass --agent-command "node my-agent.mjs".`,
    );
  }
  if (isTaskFile(environment) && given.user !== null && given.user !== "task") {
    throw new ConfigurationError(
      `Cannot use --user with "${given.env}": it is a file of tasks, whose world, user included, is the program's own; remove --user.`,
    );
  }
  const split = given.split ?? loaded.defaultSplit;
  const hasPrograms = program !== null || groups === "outside";
  const policy = await choosePolicy(given, context, hasPrograms);
  checkSplit(environment, split);
  const taskset = environment.taskset(split);
  const tasks = given.tasks ?? loaded.defaultTasks;
  const redact = redactorFor(context.env, {
    variables: accessVariables(given),
    urls: addressesOf(given),
  });
  const chosen = await chooseUser(given, environment, context);
  const user = await recordUsers(chosen, given.recordUsers, { cwd: context.cwd, redact, resumes });
  const strategy = await chooseStrategy(given, environment, context);
  const groupSize = groups === "requested" ? null : given.groupSize;
  const grading =
    groups === "outside" ? null : await chooseGrading(given, environment, { ...context, redact, groupSize });
  if (program !== null && grading !== null) {
    throw new ConfigurationError(
      "Cannot grade by models with --agent-command or --agent-acp: the program or its environment reports the reward; remove one of them.",
    );
  }
  if (preset !== null && grading !== null) {
    throw new ConfigurationError(
      `Cannot grade by models with preset "${given.preset}": its episodes are graded as in upstream; remove one of them.`,
    );
  }
  const hasTokens = policy.engine !== null && policy.engine !== "none";
  const namesModel = given.model !== null || given.gguf !== null || given.engine === "embedded";
  const named = namesModel ? (await import("./model-path.ts")).withShippedModel(given) : given;
  const model = hasTokens ? await chooseModel(named, context.cwd) : null;
  const settings: RolloutSettings = {
    ...given,
    split,
    tasks,
    engine: policy.engine,
    user: user.name,
    // The expert draws its mistakes only from the seed of the turn.
    seedTurns: given.seedTurns || policy.engine === "expert",
  };
  const sampling = samplingOf(settings);
  const data = given.data === null ? null : resolve(context.cwd, given.data);
  const faultPolicy = { policy: settings.faultPolicy, environment, data };
  const faults = faultPolicy.policy === "keep" ? null : await import("./fault-policy.ts");
  const applyFaults = faults?.faultPolicyOf(faultPolicy) ?? ((_, result) => Promise.resolve(result));
  const examined = new Set<string>();
  const plan: RolloutPlan = {
    taskset,
    taskIndexes: readTaskList(tasks, taskset),
    groupSize: settings.groupSize,
    seed: settings.seed,
  };
  // True if the episodes run in this process; other processes run them so that this one survives a
  // crash of an environment.
  const runsEpisodes = given.processes === 1 && given.queue === null && context.share === undefined;
  /** Resolves with `null` if no call format is read. */
  const examineTools = async (onNotice: (message: string) => void): Promise<ToolNames | null> => {
    if (model === null || preset !== null) return null;
    const names = new (await import("./tool-names.ts")).ToolNames(model, { known: examined, onNotice });
    // An outside program brings its own tools.
    const [first] = groups === "outside" || program !== null || !runsEpisodes ? [] : plan.taskIndexes;
    if (first !== undefined) names.examineTask(taskset.task(first), environment, strategy);
    return names;
  };
  return {
    settings,
    environment,
    plan,
    examineTools,
    groups: await chooseGroups(settings, plan, { ...context, environment: environment.name }),
    sampling,
    policyTitle: policy.title,
    apiModel: policy.apiModel,
    agentName: policy.agent?.name ?? policy.apiModel?.name ?? null,
    model,
    user,
    preset,
    rowsOf: (episode) => applyFaults(episode, episodeSamples(episode)),
    rank: grading === null ? null : (await import("../rollout/rank-group.ts")).groupRanking(grading),
    redact,
    connect: async (cancel, journal, { url, ...options } = {}) => {
      const notice = missingJudge(grading, environment, plan);
      if (notice !== null) options.onNotice?.(notice);
      const names = await examineTools(options.onNotice ?? (() => undefined));
      const served = chatModels(settings, context, grading !== null);
      if (served.length > 0) {
        const { checkChatModel } = await import("./first-contact.ts");
        await Promise.all(served.map((one) => checkChatModel(one, cancel)));
      }
      const at = url === undefined ? policy : await choosePolicy(settingsAt(url, given), context, hasPrograms);
      const shown = model === null || names === null ? model : { ...model, renderer: names.watched() };
      const parts = { settings, environment, user, strategy, model: shown, grading, preset, redact };
      const connected = await connectPolicy(at, parts, { ...options, context, cancel });
      if (preset !== null) return connected;
      const runEpisode = resumableRunner(connected.runEpisode, journal);
      return { ...connected, runEpisode: faults?.withFaultPolicy(runEpisode, faultPolicy) ?? runEpisode };
    },
  };
}

/** Settings for the servers at another address; the key is sent only to the servers of the settings. */
function settingsAt(url: string, given: RolloutSettings): RolloutSettings {
  const at = { ...given, url, host: null, port: null };
  return areOwnServers(url, given) ? at : { ...at, apiKeyEnv: null, engineAuthorizationEnv: null };
}

/** Models served at an address of the user's, which can be checked before an episode runs. */
function chatModels(
  settings: RolloutSettings,
  { env: variables, parts }: Surroundings,
  isJudged: boolean,
): Parameters<typeof checkChatModel>[0][] {
  const { judgeUrl, judgeModel, userUrl, userModel, agentUrl, agentModel, replayUsers } = settings;
  const served = (part: "user" | "agent" | "judge", url: string | null, model: string | null) =>
    url === null || (model === null && part !== "agent")
      ? []
      : [{ part, url, model, ...readAccess(part, settings, variables), variables }];
  return [
    ...(replayUsers === null ? served("user", userUrl, userModel) : []),
    ...served("agent", agentUrl, agentModel),
    ...(isJudged && parts?.judgeModel === undefined ? served("judge", judgeUrl, judgeModel) : []),
  ];
}
