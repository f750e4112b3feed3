// The table of the settings of a rollout: flags, keys of configuration files, options of programs,
// help and dry run are generated from it. `prepare-rollout.ts` chooses the parts that settings
// name.

import { z } from "zod";

import { ConfigurationError } from "../core/index.ts";
import { environmentNames, environmentOptions, environmentRows } from "./environments.ts";
import { engineNames, engineOptions, engineRows, localEngines, type RegisteredEngine } from "./engines.ts";
import {
  address,
  alternatives,
  chatAddress,
  choice,
  custom,
  file,
  flag,
  folder,
  free,
  keyOf,
  named,
  nonEmpty,
  number,
  numberWithin,
  seconds,
  section,
  type SettingValues,
  text,
  type Traits,
  variable,
  whole,
} from "../parts/setting.ts";
import { userOptions, userRows } from "../users/on-demand.ts";
import { anyNames } from "../lib/any-names.ts";
import { jsonOf } from "../lib/text.ts";

const item = /^(\d+)(?:-(\d+))?$/;

/** True for a list that {@link readTaskList} can read. */
export function isTaskList(list: string): boolean {
  if (list.trim() === "all") return true;
  return list.split(",").every((part) => {
    const [, first, last] = item.exec(part.trim()) ?? [];
    return first !== undefined && (last === undefined || Number(first) <= Number(last));
  });
}

/**
 * The indexes of a list, in its order, each once. Throws a `ConfigurationError` for an index that the split does not have;
 * "all" is every index.
 */
export function readTaskList(
  list: string,
  taskset: { readonly environment: string; readonly split: string; readonly size: number },
): number[] {
  const { environment, split, size } = taskset;
  if (list.trim() === "all") return Array.from({ length: size }, (_, index) => index);
  const indexes = new Set<number>();
  for (const part of list.split(",")) {
    const [, first = "", last = first] = item.exec(part.trim()) ?? [];
    if (Number(last) >= size) {
      throw new ConfigurationError(
        `Cannot run task ${last}: ${environment} has ${size} tasks in split "${split}", 0 to ${size - 1}; correct --tasks.`,
      );
    }
    for (let index = Number(first); index <= Number(last); index++) indexes.add(index);
  }
  return [...indexes];
}

/** YAML 1.1 files, and people, write true for on. */
const onOff = z.preprocess(
  (value) => (typeof value === "boolean" ? (value ? "on" : "off") : value),
  z.enum(["on", "off"]).nullable(),
);

const taskList = z.preprocess((value) => {
  if (typeof value === "number") return String(value);
  return Array.isArray(value) ? value.join(",") : value;
}, z.string().refine(isTaskList).nullable());

/** A JSON object, or its text. */
const jsonObject = z.preprocess(
  (value) => (typeof value === "string" ? (jsonOf(value) ?? value) : value),
  anyNames(z.unknown()),
);

const metricsList = nonEmpty.refine((list) =>
  list.split(",").every((name) => {
    const [, port = "0"] =
      /^(?:tensorboard|wandb|traces(?::messages)?|(?:mlflow|trackio):https?:\/\/\S+|prometheus(?::(\d{1,5}))?)$/.exec(
        name.trim(),
      ) ?? ["", "none"];
    return Number(port) <= 65_535;
  }),
);

/** Number of concurrent episodes: a number, bounds like "16-256", or "auto". */
export type ConcurrencyValue = number | string;

/**
 * Bounds of "auto": every training server can handle the lower one, and few can handle the upper
 * one.
 */
const auto = { floor: 4, ceiling: 1024 };

/** The command of the outside program that runs the episodes; `null` if there is none. */
export function agentProgram({ agentCommand, agentAcp }: Pick<RolloutSettings, "agentCommand" | "agentAcp">) {
  return agentAcp ?? agentCommand;
}

/** Equal bounds keep the number constant. */
export function concurrencyBounds(value: ConcurrencyValue): { readonly floor: number; readonly ceiling: number } {
  return readBounds(value) ?? { floor: 1, ceiling: 1 };
}

function readBounds(value: ConcurrencyValue): { floor: number; ceiling: number } | null {
  if (value === "auto") return auto;
  const [, low, high] = /^(\d+)\s*-\s*(\d+)$/.exec(String(value)) ?? [];
  const [floor, ceiling] = typeof value === "number" ? [value, value] : [Number(low), Number(high)];
  const isWhole = Number.isInteger(floor) && Number.isInteger(ceiling);
  return isWhole && floor >= 1 && floor <= ceiling && ceiling <= 100_000 ? { floor, ceiling } : null;
}

const concurrency = z
  .preprocess(
    (value) => (typeof value === "string" && /^\d+$/.test(value.trim()) ? Number(value) : value),
    z.union([z.number(), z.string()]),
  )
  .refine((value) => readBounds(value) !== null);

/** An engine of the registry; "own": one that a program gives as a value; "none": outside programs call their own. */
export type EngineName = RegisteredEngine | "none" | "own";

const selectableUsers = Object.keys(userRows).filter((name) => userRows[name]!.runsWith !== "named");

const formsOf = (place: "local" | "remote"): string =>
  Object.values(environmentRows)
    .flatMap(({ type, form }) => ((type === "remote") === (place === "remote") ? [form] : []))
    .join(", ");

const servers = engineNames.filter((name) => engineRows[name].type === "server");

/** The broker that carries jobs to workers on other machines, for coordinators and for workers. */
export const queueSettings = section("The queue", {
  queue: address("an address like nats://127.0.0.1:4222 or nats://127.0.0.1:4222/my-run").help(
    "broker (nats-server with JetStream) whose workers run the episodes; after the address, the name of a queue that no other run uses (default: this process runs them)",
  ),
  queueTokenEnv: variable.help(
    "environment variable with the broker's token, or the password of the user named in --queue",
  ),
  queueCredentials: file.help(
    "credentials file for the broker (JWT and seed), or a file with the seed of an nkey",
    free,
  ),
  queueCa: file.help("CA certificate that signed the broker's certificate, in PEM", free),
  queueCert: file.help("client certificate for the broker, in PEM; needs --queue-key", free),
  queueKey: file.help("key of --queue-cert, in PEM", free),
});

/** Settings for keeping groups and for the number of groups to run. */
export const groupSettings = section("Groups", {
  filter: text("<list>", "names of filters with commas between them").help(
    "drop groups: zero-signal (all rewards equal), reward-range:<min>-<max> (mean reward outside the range), or a module like ./filter.ts",
  ),
  minGroup: whole().help(
    "minimum number of graded episodes in a group; below it, the group is dropped (default: 2 with --groups, whose groups are trained; else 1)",
  ),
  replacements: whole(0, { min: 0, max: 1000 }).help("extra episodes that a group may run to replace ungraded ones"),
  groups: whole().help(
    "run until this many groups are kept, repeating the tasks if they run out (default: each task once)",
  ),
  oversample: number("<factor>", 1, { min: 1, max: 100 }).help(
    "with --groups: run this many times the required groups concurrently; the rest is cancelled when enough are kept",
  ),
  keepOrder: choice("<order>", "plan", "finished").help(
    "with --groups: keep the first groups of the plan (same seed, same run), or the first to finish (faster; prefers short episodes)",
  ),
  maxGroups: whole().help("with --groups: groups to try before giving up (default: eight times --groups)"),
  curriculum: custom("<on|run>", {
    default: null,
    expected: "on, or the folder of an earlier run",
    schema: z.preprocess((value) => (value === true ? "on" : value), nonEmpty.nullable()),
  }).help(
    "with --groups: prefer tasks that are sometimes passed over those always or never passed; a run folder supplies the results of an earlier run",
  ),
  groupTimeout: seconds().help(
    "cancel slow episodes of a group this long after its last episode began (default: the group waits for them)",
  ),
  groupCutoff: choice("<policy>", "keep", "drop").help(
    "when a group reaches --group-timeout: keep its finished episodes (at least --min-group), or drop it",
  ),
});

const common: Partial<Traits> = { isCommon: true };

export const rolloutSettings = {
  ...section("Tasks", {
    env: text("<name|file>", "the name of an environment or a file", "bookshop").help(
      `environment: ${formsOf("local")}, a module whose default export is one (./my-env.ts), the address of a remote one (${formsOf("remote")}), or a file of tasks for --agent-command (tasks.jsonl)`,
      { ...common, holds: "address", suggested: environmentNames },
    ),
  }),
  ...environmentOptions,
  ...section("Tasks", {
    split: named("a split").help("split to take tasks from: train, test, ... (default: the environment's own choice)"),
    tasks: custom("<list>", { default: null, expected: 'a list like 0-49,60 or "all"', schema: taskList }).help(
      'task indexes, like 0-49,60, or "all" (default: all; for the bookshop, the first 8)',
      common,
    ),
    groupSize: whole(1).help("episodes per task, whose rewards are compared", common),
    seed: whole(0, { min: 0, max: 4_294_967_295 }).help(
      "seed of the run; all randomness derives from it, the task and the episode's number",
    ),
  }),
  ...groupSettings,
  ...section("The policy", {
    engine: custom<EngineName | null>("<name>", {
      default: null,
      expected: alternatives([...engineNames, "none"]),
      schema: z.enum([...engineNames, "none", "own"]).nullable(),
    }).help(
      `${servers.join(", ")}, ${localEngines.join(", ")}, or none: outside programs call their own models; engines listed after ${servers.at(-1)} need no server (default: sglang if a server or a model is named)`,
      { ...common, suggested: [...engineNames, "none"] },
    ),
  }),
  ...engineOptions,
  ...section("The policy", {
    model: folder.help(
      "folder with the tokenizer and chat template of the served model, or readable for the tokenizer of the demonstrations",
      common,
    ),
    renderer: text("<family>", "the name of a model family").help(
      "model family that determines how chats are rendered (default: detected from the template)",
    ),
    history: choice("<policy>", "keep-reasoning", "branch").help(
      "if the template rewrites history: keep-reasoning (only append), or branch (a sample for each rewrite)",
    ),
    thinking: custom("<on|off>", {
      default: null,
      expected: "on or off",
      schema: onOff,
    }).help("turn thinking on or off, if the template supports it"),
    templateKwargs: custom<Readonly<Record<string, unknown>>>("<json>", {
      default: {},
      expected: "a JSON object",
      schema: jsonObject,
    }).help(
      'variables for the chat template, like {"reasoning_effort": "high"}; "doctor template" lists those that it reads',
    ),
    toolParser: named("a tool-call parser").help("tool-call parser, by its SGLang name (default: the model family's)"),
    reasoningParser: named('a reasoning parser, or "none"').help(
      'reasoning parser, by its SGLang name, or "none" (default: the model family\'s)',
    ),
    parserMode: choice("<mode>", "tokens", "text").help(
      "tokens: a marker spelled out by other tokens is plain text; text: parse as SGLang does",
    ),
    controlTokens: choice("<mode>", "text", "parse").help(
      "control tokens spelled out by users or tools: keep them as text, or parse them as servers do",
    ),
    repair: flag.help(
      "carry out calls that are nearly correct or in another format; each is reported as a format error",
    ),
    agentModel: named("a model").help(
      "API model that acts as the agent or answers the calls of outside programs, evaluated but not trained: provider/model, or its name on the server at --agent-url",
    ),
    agentUrl: chatAddress.help(
      "OpenAI-compatible server of the agent's model, like http://127.0.0.1:8000/v1; outside programs may choose among its models",
    ),
    agentApiKeyEnv: variable.help(
      "environment variable with the key for that server or provider (default: the provider's usual variable)",
    ),
    agentAuthorizationEnv: variable.help(
      'environment variable with the Authorization header for that server, instead of a key, like "Basic <base64>"',
    ),
    agentCommand: text("<command>", "a command line").help(
      "command of an outside agent program that runs each episode: its environment holds the policy's address, its key and its task, and its " +
        'last line of output is the reward, {"reward": 1}; --env may be a file of tasks',
      { holds: "address" },
    ),
    agentAcp: text("<command>", "a command line").help(
      "command of an agent that speaks the Agent Client Protocol, such as a coding agent: the user's utterances are its prompts, and it " +
        "has the environment's tools over MCP",
      { holds: "address" },
    ),
    agentPermissions: text("<kinds>", "kinds of tool calls", "other,think").help(
      "kinds of tool calls for which --agent-acp gets permission, as ACP names them, or all, or none; others are its failure",
    ),
    agentTimeout: seconds(900).help(
      "time limit of one run of an outside program; its process group is then killed",
      free,
    ),
    clientConstraints: choice("<what>", "obey", "ignore").help("forced tools and formats of programs: keep, or count"),
    constrained: choice("<what>", "mask", "train", "drop").help("loss of constrained turns: free tokens, all, none"),
    lineageCredit: choice("<which>", "all", "main", "by-tokens").help("which agents of a program its reward trains"),
    strategy: named("a strategy", "tool-calling").help(
      "how turns are prompted and parsed: tool-calling, act, react, few-shot",
      { suggested: ["tool-calling", "act", "react", "few-shot"] },
    ),
    calls: choice("<how many>", "one", "several").help(
      "tool calls carried out per turn: the first one, or all in order; with several, our instruction to call one tool per turn is omitted",
    ),
    instruction: file.help("for act and react: instruction on how to write actions, instead of ours"),
    displays: file.help(
      'for few-shot: JSON lines, each with an example conversation in "messages_display" (default: those of --data)',
    ),
    toolInstruction: text("<file>", 'a file, or "none"').help(
      'instruction on how to use tools, instead of ours; "none" keeps the template\'s',
    ),
    preset: text("<name>", "slime-tau or tau-bench").help(
      "settings for comparisons: tau-bench (those of its published results), slime-tau (the loop of slime's example)",
    ),
    routedExperts: custom<string | null>("<layers>x<experts>", {
      default: null,
      expected: "layers and experts per token of the model, like 48x8",
      schema: z
        .string()
        .regex(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/)
        .nullable(),
    }).help(
      "record the experts that a mixture-of-experts model on SGLang or vLLM chooses (server flag --enable-return-routed-experts), for trainers that replay its routing: layers and experts per token, like 48x8",
    ),
  }),
  ...section("Sampling", {
    samplingMask: flag.help(
      "record the ids that --top-k, --top-p and --min-p keep at each sampled token, and logprobs of the distribution over them, for trainers that renormalize",
    ),
    temperature: number("<t>", 1, { min: 0 }).help("sampling temperature; 0 is greedy", common),
    topP: number("<p>", 1, { above: 0, max: 1 }).help(
      "nucleus sampling: cumulative probability to sample from; 1 disables it",
    ),
    topK: custom("<k>", {
      default: -1,
      expected: "-1 or a whole number of at least 1",
      schema: numberWithin({ min: -1 }).refine((value) => Number.isSafeInteger(value) && value !== 0),
    }).help("number of most likely tokens to sample from; -1 disables it"),
    minP: number("<p>", 0, { min: 0, max: 1 }).help(
      "minimum probability relative to the most likely token; 0 disables it",
    ),
    repetitionPenalty: number("<r>", 1, { above: 0, max: 2 }).help("penalty for repeated tokens; 1 disables it"),
    maxNewTokens: whole(1024).help("maximum number of tokens sampled in one turn", common),
    samplingExtra: custom<Readonly<Record<string, unknown>>>("<json>", {
      default: {},
      expected: "a JSON object",
      schema: jsonObject,
    }).help("additional sampling parameters for the engine, sent unchanged", { holds: "key" }),
    seedTurns: flag.help("give every turn its own sampling seed (for servers with deterministic sampling)"),
  }),
  ...section("The user", {
    user: named("a user").help(
      `${selectableUsers.join(", ")}, or rules, for tau2-bench/telecom (default: the first user that the environment lists)`,
      { suggested: [...selectableUsers, "rules"] },
    ),
    recordUsers: file.help("write every exchange with the user to a new file, as JSON lines", free),
  }),
  ...userOptions,
  ...section("Grading", {
    rubric: file.help(
      "rubric by which a model scores each episode: a module whose default export is one, or a JSON file (default: the environment's own, if any)",
    ),
    ranking: text("<on|off|file>", "on, off or a JSON file").help(
      "have a model compare the episodes of each group and score them from 0 to 1 (default: as the environment defines)",
    ),
    environmentWeight: number("<w>", null, { min: 0 }).help(
      "weight of the environment's own reward beside those of the grading models; 0: only a metric (default: as the environment defines, or 0)",
    ),
    judgeModel: named("a model").help(
      "model that grades by rubrics, rankings and natural-language assertions, and with eval also attributes failures that no rule explains: provider/model, or its name at --judge-url",
    ),
    judgeUrl: chatAddress.help("OpenAI-compatible server of the judge model"),
    judgeApiKeyEnv: variable.help("environment variable with the key for the judge model"),
    judgeAuthorizationEnv: variable.help(
      'environment variable with the Authorization header for that server, instead of a key, like "Basic <base64>"',
    ),
    judgeTemperature: number("<t>", 0, { min: 0 }).help("temperature of the judge model; 1: left to its server"),
    judgeCache: file.help(
      "file of the judge's answers, keyed by a digest of the question: recorded answers are reused and new ones added; without --judge-model, all must be in the file",
      free,
    ),
  }),
  ...section("The teacher", {
    teacher: text("<engine>", "the name of an engine that scores").help(
      "score the tokens of each episode after its end under the weights of a teacher, into teacher-scores.jsonl as score does; sglang, vllm, llama-cpp or embedded",
      free,
    ),
    teacherModel: text("<folder>", "a model folder or a GGUF file").help(
      "weights of the teacher (embedded: a model folder or a shipped model; llama-cpp: a GGUF file)",
      free,
    ),
    teacherUrl: address("an address like http://127.0.0.1:30000").help("server of the teacher (sglang, vllm)", free),
    teacherApiKeyEnv: variable.help("environment variable with the key for the teacher's server"),
    topTokens: whole(0, { min: 0, max: 256 }).help(
      "most probable tokens that the teacher lists for each position; a vLLM server allows 20 unless it was started with --max-logprobs",
      free,
    ),
  }),
  ...section("Limits", {
    maxTurns: whole(30).help("maximum number of turns in an episode"),
    maxSampledTokens: whole().help("maximum number of sampled tokens in an episode (default: no separate limit)"),
    maxContextTokens: whole().help("context length of the served model (default: left to the server)"),
    maxResultCharacters: whole(100_000).help(
      "maximum characters of a tool result shown to the policy; longer results are cut, with a note",
    ),
    turnTimeout: seconds(600).help("time limit of one engine call", free),
    onEngineAbort: choice("<what>", "continue", "restart", "end").help(
      "when the server aborts a turn to load new weights: continue from its tokens, restart it, or end the episode",
    ),
    maxPause: seconds(900).help("how long a turn that the server aborted waits for it to accept requests again", free),
    openTimeout: seconds(300).help("time limit for opening an environment", free),
    environmentTimeout: seconds(60).help(
      "time limit of one tool call; a call that never yields ends the program with exit code 70, and the run can be resumed",
      free,
    ),
    userTimeout: seconds().help("time limit of one user line, retries included (default: 900; none for a human)", free),
    gradingTimeout: seconds(120).help("time limit for grading an episode", free),
    maxCost: number("<dollars>", null, { above: 0 }).help(
      "budget in US dollars for API models (agent, user, judge): once it is spent, no further episode begins, and the run can be resumed with more",
      free,
    ),
    modelRequestsPerMinute: number("<n>", null, { above: 0 }).help(
      "maximum calls started per minute to each API model (agent, user, judge), by all processes and workers together (default: no limit)",
    ),
    prices: file.help(
      'JSON file with prices that override the built-in list, in US dollars per million tokens: {"my-model": {"input": 0.5, "output": 1.5}}',
      free,
    ),
    concurrency: custom<ConcurrencyValue>("<auto|n|min-max>", {
      default: 64,
      expected: "a whole number from 1 to 100000, two with a dash between them, or auto",
      schema: concurrency,
    }).help(
      "concurrent episodes: a fixed number, or two bounds within which it follows the servers' load (auto: 4-1024)",
      {
        ...free,
        ...common,
      },
    ),
  }),
  ...section("Processes", {
    processes: custom<number | "auto">("<auto|n>", {
      default: 1,
      expected: "a whole number from 1 to 256, or auto",
      schema: z.preprocess(
        (value) => (typeof value === "string" && /^\d+$/.test(value.trim()) ? Number(value) : value),
        z.union([numberWithin({ min: 1, max: 256 }).refine(Number.isSafeInteger), z.literal("auto")]),
      ),
    }).help(
      "processes that run episodes, each writing its own shard of the run folder; 1: only this one; auto: one fewer than cores, if each gets at least 1,024 episodes and 64 at once",
      free,
    ),
  }),
  ...queueSettings,
  ...section("The queue", {
    queueLease: seconds(60).help(
      "with --queue or --processes: a worker silent for this long loses its episodes to others; at least 3",
      free,
    ),
  }),
  ...section("Output", {
    out: folder.help("run folder; must be new or empty (default: runs/<time>-<env>)", { ...free, ...common }),
    fsync: custom<"always" | "never" | number>("<when>", {
      default: 1000,
      expected: "always, never or a number of milliseconds",
      schema: z.union([z.enum(["always", "never"]), numberWithin({ min: 1, max: 3_600_000 })]),
    }).help(
      "when to flush the journal to disk: always (before an event counts), never, or within this many milliseconds; a killed process loses nothing either way",
      free,
    ),
    diskWait: number("<seconds>", 30, { min: 0, max: 2_000_000 }).help(
      "how long a run waits for space on a full disk before it stops; it can then be resumed",
      free,
    ),
    writeSamples: flag.help(
      "write samples.jsonl, one training row per line, during the run; export --format samples writes the same file afterwards",
    ),
    faultPolicy: choice("<policy>", "keep", "mask", "drop").help(
      "samples of episodes that failed because of the user or the environment: keep, mask (in the group, outside the loss), or drop",
    ),
    metrics: custom("<list>", {
      default: null,
      expected:
        "a list of prometheus, prometheus:<port>, tensorboard, wandb, mlflow:<url>, trackio:<url>, traces and traces:messages, separated by commas",
      schema: metricsList.nullable(),
    }).help(
      "prometheus, prometheus:<port> (a page to scrape, port 9464), tensorboard (event files in the run folder), wandb (an offline run there, for wandb sync), mlflow:<url>, trackio:<url> (their servers), traces (OpenTelemetry spans, for a process started with an SDK; traces:messages: with the messages); separate several with commas; train, which has only curves, supports tensorboard, wandb, mlflow and trackio",
      { ...free, holds: "address" },
    ),
    metricsAuthorizationEnv: variable.help(
      "environment variable with the Authorization header for the server of --metrics mlflow: or trackio:",
    ),
    logJson: flag.help(
      "write machine-readable log lines to standard error: retries, failures, ends of episodes and groups",
      {
        onResume: "of-terminal",
      },
    ),
    quiet: flag.help("show no progress, only the final table", { onResume: "of-terminal" }),
  }),
};

export type SettingName = keyof typeof rolloutSettings;

/** All settings with their values. */
export type RolloutSettings = SettingValues<typeof rolloutSettings>;

export const settingNames = Object.keys(rolloutSettings) as SettingName[];

/** Renamed flags: earlier spelling to present one. Only the command line accepts the earlier ones. */
export const renamedSettings: ReadonlyMap<string, string> = new Map([
  ["max-steps", "max-turns"],
  ["samples-per-task", "group-size"],
]);

const namesByKey = new Map(settingNames.map((name) => [keyOf(name), name]));

/** The setting of a key; `undefined` if there is none. */
export function settingOfKey(key: string): SettingName | undefined {
  return namesByKey.get(key);
}

/** True if a setting is about a teacher beside the run. */
export function namesTeacher(
  settings: Pick<RolloutSettings, "teacher" | "teacherModel" | "teacherUrl" | "teacherApiKeyEnv" | "topTokens">,
): boolean {
  const { teacher, teacherModel, teacherUrl, teacherApiKeyEnv, topTokens } = settings;
  return topTokens !== 0 || [teacher, teacherModel, teacherUrl, teacherApiKeyEnv].some((value) => value !== null);
}
