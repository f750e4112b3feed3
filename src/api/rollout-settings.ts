// The table of the settings of a rollout: flags, keys of configuration files, options of programs,
// help and dry run are generated from it. `prepare-rollout.ts` chooses the parts that settings
// name.

import { z } from "zod";

import { ConfigurationError } from "../core/index.ts";
import { queueSettings } from "./choose-queue.ts";
import {
  address,
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
} from "./setting.ts";
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

/** Time in seconds. */
export const defaultEngineWait = 300;

/** Settings for keeping groups and for the number of groups to run. */
export const groupSettings = section("Groups", {
  filter: text("<list>", "names of filters with commas between them").help(
    "drop groups: zero-signal (all rewards alike), reward-range:<min>-<max> (mean reward outside), or a module like ./filter.ts",
  ),
  minGroup: whole().help(
    "graded episodes without which a group is dropped (default: 2 with --groups, whose groups are trained; else 1)",
  ),
  replacements: whole(0, { min: 0, max: 1000 }).help(
    "further episodes a group may run in place of those that were not graded",
  ),
  groups: whole().help(
    "run until so many groups are kept, tasks over again where they run out (default: each task once)",
  ),
  oversample: number("<factor>", 1, { min: 1, max: 100 }).help(
    "with --groups: so many times as many are in flight at once; the rest is cancelled when enough are kept",
  ),
  keepOrder: choice("<order>", "plan", "finished").help(
    "with --groups: keep the first of the plan (same seed, same run), or the first that finished (faster; prefers short episodes)",
  ),
  maxGroups: whole().help("with --groups: groups to try before giving up (default: eight times as many)"),
  curriculum: custom("<on|run>", {
    default: null,
    expected: "on, or the folder of an earlier run",
    schema: z.preprocess((value) => (value === true ? "on" : value), nonEmpty.nullable()),
  }).help(
    "with --groups: draw tasks that are passed sometimes rather than always or never; a run folder says what is known of them",
  ),
  groupTimeout: seconds().help(
    "slow episodes of a group are cancelled so long after its last one began (default: the group waits for them)",
  ),
  groupCutoff: choice("<policy>", "keep", "drop").help(
    "a group that ran into --group-timeout: keep what is there (at least --min-group), or drop it",
  ),
});

const common: Partial<Traits> = { isCommon: true };

export const rolloutSettings = {
  ...section("Tasks", {
    env: text("<name|file>", "the name of an environment or a file", "bookshop").help(
      "environment: bookshop, tau-bench/retail, tau-bench/airline, a module whose default export is one (./my-env.ts), the address of a remote one (mcp:<command or url>, openenv:<url>, ors:<url>), or a file of tasks for --agent-command (tasks.jsonl)",
      { ...common, holds: "address" },
    ),
    data: folder.help(
      'folder with the data of the environment: an upstream checkout of tau-bench, or what "prepare tau-bench" made of one',
      { ...free, ...common },
    ),
    envTasks: file.help(
      "JSON lines with the tasks of a remote environment that has none of its own (mcp:, openenv:), or seeds:<number> (openenv:)",
    ),
    envApiKeyEnv: variable.help("environment variable with the key that is sent to a remote environment"),
    envAuthorizationEnv: variable.help(
      'environment variable with the value of the Authorization header that a remote environment is sent, in place of a key, like "Basic <base64>"',
    ),
    mcpElicitation: choice("<policy>", "decline", "accept-defaults").help(
      "what an MCP server is answered that asks for input: no, or the defaults of its form",
    ),
    mcpWarm: whole(2, { min: 0, max: 1000 }).help(
      "processes of an MCP server that are started before an episode needs one",
    ),
    split: named("a split").help("which tasks: train, test, ... (default: the environment's usual one)"),
    solo: flag.help(
      "tau2-bench without a user: the agent has the tools of both sides and works from a ticket; the same as -solo behind the environment's name",
    ),
    tasks: custom("<list>", { default: null, expected: 'a list like 0-49,60 or "all"', schema: taskList }).help(
      'indexes of tasks, like 0-49,60, or "all" (default: all; the first 8 of the bookshop)',
      common,
    ),
    groupSize: whole(1).help("episodes of each task, whose rewards are compared", common),
    seed: whole(0, { min: 0, max: 4_294_967_295 }).help(
      "of the run; everything random derives from it, the task and the episode's number",
    ),
  }),
  ...groupSettings,
  ...section("The policy", {
    engine: custom<"sglang" | "vllm" | "llama-cpp" | "embedded" | "expert" | "none" | "own" | null>("<name>", {
      default: null,
      expected: "sglang, vllm, llama-cpp, embedded, expert or none",
      schema: z.enum(["sglang", "vllm", "llama-cpp", "embedded", "expert", "none", "own"]).nullable(),
    }).help(
      "sglang, vllm, llama-cpp: a GGUF file in this process, embedded: a small model in this process, expert: a script for the bookshop and tau2-bench/telecom, or none: outside programs call models of their own; the last four need no server (default: sglang when a server or a model is named)",
      common,
    ),
    gguf: text("<file>", "the path of a GGUF file").help(
      "weights for engine llama-cpp; --model names the folder of their tokenizer and chat template",
    ),
    ggufAdapter: text("<file>", "the path of a GGUF file with an adapter").help(
      "adapter (LoRA) for --gguf, such as adapter.gguf of a checkpoint of train; the weight version is its hash",
    ),
    url: address("an address like http://127.0.0.1:30000, or several with commas between them").help(
      "SGLang server or router, or vLLM server, like http://router:30000; several with commas between them share the episodes",
      common,
    ),
    host: text("<name>", "a host name").help("instead of --url: host of the server (default: 127.0.0.1)", free),
    port: whole(null, { min: 1, max: 65_535 }).help(
      "instead of --url: port of the server (default: 30000; vLLM: 8000)",
      free,
    ),
    apiKeyEnv: variable.help("environment variable with the key of the server"),
    engineAuthorizationEnv: variable.help(
      'environment variable with the value of the Authorization header that the server is sent, in place of a key, like "Basic <base64>"',
    ),
    logprobsMode: choice("<mode>", "raw", "processed").help(
      "how a vLLM server was started: raw, or processed (--logprobs-mode processed_logprobs)",
    ),
    endpoint: choice("<name>", "auto", "generate", "completions").help(
      "where a vLLM server samples: generate (/inference/v1/generate), completions (/v1/completions), or auto: the first where the server has it enabled",
    ),
    model: folder.help(
      "folder with the tokenizer and chat template of the served model (readable: that of the demonstrations)",
      common,
    ),
    renderer: text("<family>", "the name of a model family").help(
      "model family whose chat template is followed (default: detected from the template)",
    ),
    history: choice("<policy>", "keep-reasoning", "branch").help(
      "where a template rewrites history: keep-reasoning (only append), or branch (a sample for each rewrite)",
    ),
    thinking: custom("<on|off>", {
      default: null,
      expected: "on or off",
      schema: onOff,
    }).help("for models whose template has the switch"),
    templateKwargs: custom<Readonly<Record<string, unknown>>>("<json>", {
      default: {},
      expected: "a JSON object",
      schema: jsonObject,
    }).help(
      'variables of the chat template, like {"reasoning_effort": "high"}; doctor template lists those that it reads',
    ),
    toolParser: named("a tool-call parser").help("tool-call parser, by SGLang's names (default: the model family's)"),
    reasoningParser: named('a reasoning parser, or "none"').help(
      "reasoning parser, by SGLang's names, or \"none\" (default: the model family's)",
    ),
    parserMode: choice("<mode>", "tokens", "text").help(
      "tokens: a marker spelled out by other tokens is text; text: as SGLang reads",
    ),
    controlTokens: choice("<mode>", "text", "parse").help(
      "control tokens that users and tools spell out: text, or parse them as servers do",
    ),
    repair: flag.help(
      "carry out calls that are nearly right, or written in another format, each reported as a format error",
    ),
    agentModel: named("a model").help(
      "model behind an API that is the agent, or answers the calls of outside programs, to be evaluated and not trained: provider/model, or its name on the server of --agent-url",
    ),
    agentUrl: chatAddress.help(
      "OpenAI-compatible server of the agent's model, like http://127.0.0.1:8000/v1; outside programs may name models of it themselves",
    ),
    agentApiKeyEnv: variable.help(
      "environment variable with the key of that server or provider (default: the provider's usual one)",
    ),
    agentAuthorizationEnv: variable.help(
      'environment variable with the value of the Authorization header that that server is sent, in place of a key, like "Basic <base64>"',
    ),
    agentCommand: text("<command>", "a command line").help(
      "an outside agent program runs each episode: it finds the policy's address, its key and its task in its environment, and its " +
        'last line is its reward, {"reward": 1}; --env may be a file of tasks',
      { holds: "address" },
    ),
    agentTimeout: seconds(900).help("of one run of --agent-command; then its process group is killed", free),
    strategy: named("a strategy", "tool-calling").help(
      "how a turn is prompted and read: tool-calling, act, react, few-shot",
    ),
    calls: choice("<how many>", "one", "several").help(
      "calls of a turn that are carried out: the first one, or all in order; with several, our instruction to call one tool a turn is left out",
    ),
    instruction: file.help("for act and react: instruction about how actions are written, in place of ours"),
    displays: file.help(
      'for few-shot: JSON lines with an example conversation as "messages_display" (default: those of --data)',
    ),
    toolInstruction: text("<file>", 'a file, or "none"').help(
      'instruction about the use of tools, in place of ours; "none" keeps the template\'s',
    ),
    preset: text("<name>", "slime-tau or tau-bench").help(
      "settings for comparison: tau-bench (as its published results were made), slime-tau (the loop of slime's example)",
    ),
    routedExperts: custom<string | null>("<layers>x<experts>", {
      default: null,
      expected: "layers and experts per token of the model, like 48x8",
      schema: z
        .string()
        .regex(/^[1-9]\d{0,3}x[1-9]\d{0,3}$/)
        .nullable(),
    }).help(
      "keep the experts that a mixture-of-experts model on SGLang chooses (--enable-return-routed-experts), for trainers that replay its routing: layers and experts per token, like 48x8",
    ),
    expertNoise: number("<p>", 0.1, { min: 0, max: 1 }).help("how often the expert errs at a turn"),
  }),
  ...section("Sampling", {
    temperature: number("<t>", 1, { min: 0 }).help("0 is greedy", common),
    topP: number("<p>", 1, { above: 0, max: 1 }).help("1 cuts nothing off"),
    topK: custom("<k>", {
      default: -1,
      expected: "-1 or a whole number of at least 1",
      schema: numberWithin({ min: -1 }).refine((value) => Number.isSafeInteger(value) && value !== 0),
    }).help("-1 cuts nothing off"),
    minP: number("<p>", 0, { min: 0, max: 1 }).help("0 cuts nothing off"),
    repetitionPenalty: number("<r>", 1, { above: 0, max: 2 }).help("1 changes nothing"),
    maxNewTokens: whole(1024).help("of one turn", common),
    samplingExtra: custom<Readonly<Record<string, unknown>>>("<json>", {
      default: {},
      expected: "a JSON object",
      schema: jsonObject,
    }).help("further parameters for the engine, sent as they are", { holds: "key" }),
    seedTurns: flag.help("give every turn a sampling seed of its own (servers with deterministic sampling)"),
  }),
  ...section("The user", {
    user: named("a user").help(
      "agenda, llm, react, verify, reflection, human, scripted, task, or rules: of tau2-bench/telecom (default: the first that the environment lists)",
    ),
    userModel: named("a model").help(
      "model of the simulated user: provider/model, or its name on the server of --user-url",
      common,
    ),
    userUrl: chatAddress.help("OpenAI-compatible server of the user's model, like http://127.0.0.1:8000/v1"),
    userApiKeyEnv: variable.help(
      "environment variable with the key of that server or provider (default: the provider's usual one)",
    ),
    userAuthorizationEnv: variable.help(
      'environment variable with the value of the Authorization header that that server is sent, in place of a key, like "Basic <base64>"',
    ),
    userLines: file.help("what the scripted user says, one line each"),
    userPrompts: choice("<source>", "data", "own").help(
      "prompts of simulated users: those of the data folder where it has some, or our own",
    ),
    userCompat: choice("<which>", "sane", "upstream").help(
      "upstream: model users keep the quirks of the tau-bench reference, for comparison with it",
    ),
    recordUsers: file.help("write every exchange with the user to a new file, as JSON lines", free),
    replayUsers: file.help(
      "replay the users of such a file, without a model; tasks, trials and seed must be those of the recording",
    ),
  }),
  ...section("Grading", {
    rubric: file.help(
      "a model scores each episode by a rubric: a module whose default export is one, or a JSON file (default: what the environment is defined with)",
    ),
    ranking: text("<on|off|file>", "on, off or a JSON file").help(
      "a model compares the episodes of each group and scores them from 0 to 1 (default: what the environment is defined with)",
    ),
    environmentWeight: number("<w>", null, { min: 0 }).help(
      "weight of the environment's own reward beside the models that grade; 0: a metric alone (default: the definition's, or 0)",
    ),
    judgeModel: named("a model").help(
      "model that grades by rubric, ranking and assertions of natural language, and with eval attributes the failures which no rule explains: provider/model, or its name at --judge-url",
    ),
    judgeUrl: chatAddress.help("OpenAI-compatible server of that model"),
    judgeApiKeyEnv: variable.help("environment variable with its key"),
    judgeAuthorizationEnv: variable.help(
      'environment variable with the value of the Authorization header that that server is sent, in place of a key, like "Basic <base64>"',
    ),
    judgeTemperature: number("<t>", 0, { min: 0 }).help("of that model; 1: left to its server"),
    judgeCache: file.help(
      "answers of the judge by the digest of the question: those in the file are not requested again, new ones are added; without --judge-model all must be there",
      free,
    ),
  }),
  ...section("Limits", {
    maxTurns: whole(30).help("turns of an episode"),
    maxSampledTokens: whole().help("sampled tokens of an episode (default: no bound of its own)"),
    maxContextTokens: whole().help("context of the served model (default: left to the server)"),
    maxResultCharacters: whole(100_000).help(
      "characters of a tool's result that the policy reads; longer ones are cut with a note",
    ),
    turnTimeout: seconds(600).help("of one engine call", free),
    connectTimeout: seconds(10).help("of a connection to the engine's server", free),
    firstByteTimeout: seconds().help(
      "of the beginning of a reply of the engine (default: that of the whole call)",
      free,
    ),
    engineWait: seconds().help(
      `how long a turn, and the first contact, waits for an engine's server that takes no requests (default: ${defaultEngineWait}; unless given, the first contact does not wait for one that cannot be reached)`,
      free,
    ),
    onEngineAbort: choice("<what>", "continue", "restart", "end").help(
      "a turn that the server aborts for new weights: continue from its tokens, restart it, or end the episode",
    ),
    maxPause: seconds(900).help(
      "how long a turn that the server has aborted waits for it to take requests again",
      free,
    ),
    openTimeout: seconds(300).help("of the opening of an environment", free),
    environmentTimeout: seconds(60).help(
      "of one call of a tool; one that never yields ends the program with exit code 70, to be resumed",
      free,
    ),
    userTimeout: seconds().help(
      "of one line of the user, retries included (default: 900; a human has all the time)",
      free,
    ),
    gradingTimeout: seconds(120).help("of the grading of an episode", free),
    maxCost: number("<dollars>", null, { above: 0 }).help(
      "US dollars for models behind an API (agent, user, judge): when they are spent no other episode begins, and the run can be resumed with more",
      free,
    ),
    modelRequestsPerMinute: number("<n>", null, { above: 0 }).help(
      "calls that begin in a minute to each model behind an API (agent, user, judge), of all processes and workers together (default: no limit)",
    ),
    prices: file.help(
      'JSON with prices over the built-in list, in US dollars per million tokens: {"my-model": {"input": 0.5, "output": 1.5}}',
      free,
    ),
    concurrency: custom<ConcurrencyValue>("<auto|n|min-max>", {
      default: 64,
      expected: "a whole number from 1 to 100000, two with a dash between them, or auto",
      schema: concurrency,
    }).help("episodes at once: a number, or as many as the servers are busy with, between two bounds (auto: 4-1024)", {
      ...free,
      ...common,
    }),
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
      "processes that run episodes, each writing its own shard of the run folder; 1: this one alone. auto: one less than cores, as far as each has 1,024 episodes and 64 at once",
      free,
    ),
  }),
  ...queueSettings,
  ...section("The queue", {
    queueLease: seconds(60).help(
      "with --queue and --processes: a worker that is silent for so long has lost its episodes, which others run; at least 3",
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
      "when the journal is forced to the disk: always (before an event counts), never, or so many milliseconds later; a killed process loses nothing either way",
      free,
    ),
    diskWait: number("<seconds>", 30, { min: 0, max: 2_000_000 }).help(
      "how long a run waits for space on a full disk before it stops, to be resumed",
      free,
    ),
    writeSamples: flag.help(
      "write samples.jsonl, a training row a line, during the run; export --format samples makes the same file afterwards",
    ),
    faultPolicy: choice("<policy>", "keep", "mask", "drop").help(
      "samples of episodes that failed through the user or the environment: keep, mask (in the group, outside the loss), drop",
    ),
    metrics: custom("<list>", {
      default: null,
      expected:
        "a list of prometheus, prometheus:<port>, tensorboard, wandb, mlflow:<url>, trackio:<url>, traces and traces:messages, with commas between them,",
      schema: metricsList.nullable(),
    }).help(
      "prometheus, prometheus:<port> (a page to scrape, port 9464), tensorboard (event files in the run folder), wandb (an offline run there, for wandb sync), mlflow:<url>, trackio:<url> (their servers), traces (OpenTelemetry spans, for a process started with an SDK; traces:messages: with what was said); several with commas; train, which has curves alone, takes tensorboard, wandb, mlflow and trackio",
      { ...free, holds: "address" },
    ),
    metricsAuthorizationEnv: variable.help(
      "environment variable with the value of the Authorization header that the server of --metrics mlflow: or trackio: is sent",
    ),
    logJson: flag.help("log lines for machines on standard error: retries, failures, ends of episodes and groups", {
      onResume: "of-terminal",
    }),
    quiet: flag.help("no progress, only the closing table", { onResume: "of-terminal" }),
  }),
};

export type SettingName = keyof typeof rolloutSettings;

/** All settings with their values. */
export type RolloutSettings = SettingValues<typeof rolloutSettings>;

export const settingNames = Object.keys(rolloutSettings) as SettingName[];

/** Renamed settings: old name to new. Old command lines, files and run folders are still read. */
export const renamedSettings: ReadonlyMap<string, string> = new Map([
  ["max-steps", "max-turns"],
  ["samples-per-task", "group-size"],
]);

const namesByKey = new Map(settingNames.map((name) => [keyOf(name), name]));

/** The setting of a key, by its present or an earlier name; `undefined` if there is none. */
export function settingOfKey(key: string): SettingName | undefined {
  return namesByKey.get(renamedSettings.get(key) ?? key);
}
