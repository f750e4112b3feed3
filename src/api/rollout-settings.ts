// The table of the settings of a rollout: flags, keys of configuration files, options of programs, help and dry run are made
// from it. What the settings lead to is decided where parts are chosen (`prepare-rollout.ts`).

import { z } from "zod";

import { ConfigurationError } from "../core/index.ts";
import {
  choice,
  custom,
  flag,
  keyOf,
  nonEmpty,
  number,
  numberWithin,
  seconds,
  section,
  type SettingValues,
  text,
  whole,
} from "./setting.ts";

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

const folder = "a folder";
const file = "a file";
const variable = "the name of an environment variable";
const chatAddress = "an address like http://127.0.0.1:8000/v1";

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
  (value) => {
    if (typeof value !== "string") return value;
    try {
      return JSON.parse(value) as unknown;
    } catch {
      return value;
    }
  },
  z.record(z.string(), z.unknown()),
);

const metricsList = nonEmpty.refine((list) =>
  list.split(",").every((name) => {
    const [, port = "0"] = /^(?:tensorboard|traces|prometheus(?::(\d{1,5}))?)$/.exec(name.trim()) ?? ["", "none"];
    return Number(port) <= 65_535;
  }),
);

/** Episodes at once: a number, bounds like "16-256", or "auto". */
export type ConcurrencyValue = number | string;

/** The bounds of "auto": no server that trains is too small for the first, and few are large enough for the second. */
const auto = { floor: 4, ceiling: 1024 };

/** Equal bounds: the number stays. */
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

/** Seconds. */
export const defaultEngineWait = 300;

/** Which groups are kept and how many are run. */
export const groupSettings = section("Groups", {
  filter: text(
    "<list>",
    "drop groups: zero-signal (all rewards alike), reward-range:<min>-<max> (mean reward outside), or a module like ./filter.ts",
    null,
    "names of filters with commas between them",
  ),
  minGroup: whole(
    "<n>",
    "graded episodes without which a group is dropped (default: 2 with --groups, whose groups are trained; else 1)",
    null,
  ),
  replacements: whole("<n>", "further episodes a group may run in place of those that were not graded", 0, {
    min: 0,
    max: 1000,
  }),
  groups: whole(
    "<n>",
    "run until so many groups are kept, tasks over again where they run out (default: each task once)",
    null,
  ),
  oversample: number(
    "<factor>",
    "with --groups: so many times as many are in flight at once; the rest is cancelled when enough are kept",
    1,
    { min: 1, max: 100 },
  ),
  keepOrder: choice(
    "<order>",
    "with --groups: keep the first of the plan (same seed, same run), or the first that finished (faster; prefers short episodes)",
    ["plan", "finished"],
    "plan",
  ),
  maxGroups: whole("<n>", "with --groups: groups to try before giving up (default: eight times as many)", null),
  curriculum: custom(
    "<on|run>",
    "with --groups: draw tasks that are passed sometimes rather than always or never; a run folder says what is known of them",
    null,
    "on, or the folder of an earlier run",
    z.preprocess((value) => (value === true ? "on" : value), nonEmpty.nullable()),
  ),
  groupTimeout: seconds(
    "slow episodes of a group are cancelled so long after its last one began (default: the group waits for them)",
    null,
  ),
  groupCutoff: choice(
    "<policy>",
    "a group that ran into --group-timeout: keep what is there (at least --min-group), or drop it",
    ["keep", "drop"],
    "keep",
  ),
});

export const rolloutSettings = {
  ...section("Tasks", {
    env: text(
      "<name|file>",
      "environment: bookshop, tau-bench/retail, tau-bench/airline, or a module whose default export is one (./my-env.ts)",
      "bookshop",
      "the name of an environment or a file",
    ),
    data: text(
      "<folder>",
      'folder with the data of the environment: an upstream checkout of tau-bench, or what "prepare tau-bench" made of one',
      null,
      folder,
    ),
    split: text(
      "<name>",
      "which tasks: train, test, ... (default: the environment's usual one)",
      null,
      "the name of a split",
    ),
    tasks: custom(
      "<list>",
      'indexes of tasks, like 0-49,60, or "all" (default: all; the first 8 of the bookshop)',
      null,
      'a list like 0-49,60 or "all"',
      taskList,
    ),
    groupSize: whole("<n>", "episodes of each task, whose rewards are compared", 1),
    seed: whole("<n>", "of the run; everything random derives from it, the task and the episode's number", 0, {
      min: 0,
      max: 4_294_967_295,
    }),
  }),
  ...groupSettings,
  ...section("The policy", {
    engine: custom<"sglang" | "vllm" | "llama-cpp" | "embedded" | "expert" | "own" | null>(
      "<name>",
      "sglang, vllm, llama-cpp: a GGUF file in this process, embedded: a small model in this process, or expert: a script for the bookshop; the last three need no server (default: sglang when a server or a model is named)",
      null,
      "sglang, vllm, llama-cpp, embedded or expert",
      z.enum(["sglang", "vllm", "llama-cpp", "embedded", "expert", "own"]).nullable(),
    ),
    gguf: text(
      "<file>",
      "weights for engine llama-cpp; --model names the folder of their tokenizer and chat template",
      null,
      "the path of a GGUF file",
    ),
    url: text(
      "<address>",
      "SGLang server or router, or vLLM server, like http://router:30000; several with commas between them share the episodes",
      null,
      "an address like http://127.0.0.1:30000, or several with commas between them",
    ),
    host: text("<name>", "instead of --url: host of the server (default: 127.0.0.1)", null, "a host name"),
    port: whole("<n>", "instead of --url: port of the server (default: 30000; vLLM: 8000)", null, {
      min: 1,
      max: 65_535,
    }),
    apiKeyEnv: text("<variable>", "environment variable with the key of the server", null, variable),
    logprobsMode: choice(
      "<mode>",
      "how a vLLM server was started: raw, or processed (--logprobs-mode processed_logprobs)",
      ["raw", "processed"],
      "raw",
    ),
    endpoint: choice(
      "<name>",
      "where a vLLM server samples: generate (/inference/v1/generate), completions (/v1/completions), or auto: the first where the server has it enabled",
      ["auto", "generate", "completions"],
      "auto",
    ),
    model: text(
      "<folder>",
      "folder with the tokenizer and chat template of the served model (readable: that of the demonstrations)",
      null,
      folder,
    ),
    renderer: text(
      "<family>",
      "model family whose chat template is followed (default: detected from the template)",
      null,
      "the name of a model family",
    ),
    history: choice(
      "<policy>",
      "where a template rewrites history: keep-reasoning (only append), or branch (a sample for each rewrite)",
      ["keep-reasoning", "branch"],
      "keep-reasoning",
    ),
    thinking: custom(
      "<on|off>",
      "for models whose template has the switch",
      null,
      "on or off",
      onOff as z.ZodType<"on" | "off" | null>,
    ),
    toolParser: text(
      "<name>",
      "tool-call parser, by SGLang's names (default: the model family's)",
      null,
      "the name of a tool-call parser",
    ),
    reasoningParser: text(
      "<name>",
      "reasoning parser, by SGLang's names, or \"none\" (default: the model family's)",
      null,
      'the name of a reasoning parser, or "none"',
    ),
    parserMode: choice(
      "<mode>",
      "tokens: a marker spelled out by other tokens is text; text: as SGLang reads",
      ["tokens", "text"],
      "tokens",
    ),
    controlTokens: choice(
      "<mode>",
      "control tokens that users and tools spell out: text, or parse them as servers do",
      ["text", "parse"],
      "text",
    ),
    repair: flag("read calls that are nearly right, each reported as a format error"),
    agentModel: text(
      "<name>",
      "model behind an API that is the agent, to be evaluated and not trained: provider/model, or its name on the server of --agent-url",
      null,
      "the name of a model",
    ),
    agentUrl: text(
      "<address>",
      "OpenAI-compatible server of the agent's model, like http://127.0.0.1:8000/v1",
      null,
      chatAddress,
    ),
    agentApiKeyEnv: text(
      "<variable>",
      "environment variable with the key of that server or provider (default: the provider's usual one)",
      null,
      variable,
    ),
    strategy: text(
      "<name>",
      "how a turn is prompted and read: tool-calling, act, react, few-shot",
      "tool-calling",
      "the name of a strategy",
    ),
    instruction: text(
      "<file>",
      "for act and react: instruction about how actions are written, in place of ours",
      null,
      file,
    ),
    displays: text(
      "<file>",
      'for few-shot: JSON lines with an example conversation as "messages_display" (default: those of --data)',
      null,
      file,
    ),
    toolInstruction: text(
      "<file>",
      'instruction about the use of tools, in place of ours; "none" keeps the template\'s',
      null,
      'a file, or "none"',
    ),
    preset: text(
      "<name>",
      "settings for comparison: tau-bench (as its published results were made), slime-tau (the loop of slime's example)",
      null,
      "slime-tau or tau-bench",
    ),
    expertNoise: number("<p>", "how often the expert errs at a turn", 0.1, { min: 0, max: 1 }),
  }),
  ...section("Sampling", {
    temperature: number("<t>", "0 is greedy", 1, { min: 0 }),
    topP: number("<p>", "1 cuts nothing off", 1, { above: 0, max: 1 }),
    topK: custom(
      "<k>",
      "-1 cuts nothing off",
      -1,
      "-1 or a whole number of at least 1",
      numberWithin({ min: -1 }).refine((value) => Number.isSafeInteger(value) && value !== 0),
    ),
    minP: number("<p>", "0 cuts nothing off", 0, { min: 0, max: 1 }),
    repetitionPenalty: number("<r>", "1 changes nothing", 1, { above: 0, max: 2 }),
    maxNewTokens: whole("<n>", "of one turn", 1024),
    samplingExtra: custom<Readonly<Record<string, unknown>>>(
      "<json>",
      "further parameters for the engine, sent as they are",
      {},
      "a JSON object",
      jsonObject,
    ),
    seedTurns: flag("give every turn a sampling seed of its own (servers with deterministic sampling)"),
  }),
  ...section("The user", {
    user: text(
      "<name>",
      "agenda, llm, react, verify, reflection, human, scripted (default: the first that the environment lists)",
      null,
      "the name of a user",
    ),
    userModel: text(
      "<name>",
      "model of the simulated user: provider/model, or its name on the server of --user-url",
      null,
      "the name of a model",
    ),
    userUrl: text(
      "<address>",
      "OpenAI-compatible server of the user's model, like http://127.0.0.1:8000/v1",
      null,
      chatAddress,
    ),
    userApiKeyEnv: text(
      "<variable>",
      "environment variable with the key of that server or provider (default: the provider's usual one)",
      null,
      variable,
    ),
    userLines: text("<file>", "what the scripted user says, one line each", null, file),
    userPrompts: choice(
      "<source>",
      "prompts of simulated users: those of the data folder where it has some, or our own",
      ["data", "own"],
      "data",
    ),
    userCompat: choice(
      "<which>",
      "upstream: model users keep the quirks of the tau-bench reference, for comparison with it",
      ["sane", "upstream"],
      "sane",
    ),
    recordUsers: text("<file>", "write every exchange with the user to a new file, as JSON lines", null, file),
    replayUsers: text(
      "<file>",
      "replay the users of such a file, without a model; tasks, trials and seed must be those of the recording",
      null,
      file,
    ),
  }),
  ...section("Limits", {
    maxTurns: whole("<n>", "turns of an episode", 30),
    maxSampledTokens: whole("<n>", "sampled tokens of an episode (default: no bound of its own)", null),
    maxContextTokens: whole("<n>", "context of the served model (default: left to the server)", null),
    maxResultCharacters: whole(
      "<n>",
      "characters of a tool's result that the policy reads; longer ones are cut with a note",
      100_000,
    ),
    turnTimeout: seconds("of one engine call", 600),
    connectTimeout: seconds("of a connection to the engine's server", 10),
    firstByteTimeout: seconds("of the beginning of a reply of the engine (default: that of the whole call)", null),
    engineWait: seconds(
      `how long a turn, and the first contact, waits for an engine's server that takes no requests (default: ${defaultEngineWait}; unless given, the first contact does not wait for one that cannot be reached)`,
      null,
    ),
    onEngineAbort: choice(
      "<what>",
      "a turn that the server aborts for new weights: continue from its tokens, restart it, or end the episode",
      ["continue", "restart", "end"],
      "continue",
    ),
    maxPause: seconds("how long a turn that the server has aborted waits for it to take requests again", 900),
    environmentTimeout: seconds(
      "of one call of a tool; one that never yields ends the program with exit code 70, to be resumed",
      60,
    ),
    userTimeout: seconds("of one line of the user, retries included (default: 900; a human has all the time)", null),
    gradingTimeout: seconds("of the grading of an episode", 120),
    concurrency: custom<ConcurrencyValue>(
      "<auto|n|min-max>",
      "episodes at once: a number, or as many as the servers are busy with, between two bounds (auto: 4-1024)",
      64,
      "a whole number from 1 to 100000, two with a dash between them, or auto",
      concurrency,
    ),
  }),
  ...section("Output", {
    out: text("<folder>", "run folder; must be new or empty (default: runs/<time>-<env>)", null, folder),
    fsync: custom<"always" | "never" | number>(
      "<when>",
      "when the journal is forced to the disk: always (before an event counts), never, or so many milliseconds later; a killed process loses nothing either way",
      1000,
      "always, never or a number of milliseconds",
      z.union([z.enum(["always", "never"]), numberWithin({ min: 1, max: 3_600_000 })]),
    ),
    writeSamples: flag(
      "write samples.jsonl, a training row a line, during the run; export --format samples makes the same file afterwards",
    ),
    faultPolicy: choice(
      "<policy>",
      "samples of episodes that failed through the user or the environment: keep, mask (in the group, outside the loss), drop",
      ["keep", "mask", "drop"],
      "keep",
    ),
    metrics: custom(
      "<list>",
      "prometheus, prometheus:<port> (a page to scrape, port 9464), tensorboard (event files in the run folder), traces (OpenTelemetry spans, for a process started with an SDK); several with commas",
      null,
      "a list of prometheus, prometheus:<port>, tensorboard and traces, with commas between them,",
      metricsList.nullable() as z.ZodType<string | null>,
    ),
    logJson: flag("log lines for machines on standard error: retries, failures, ends of episodes and groups"),
    quiet: flag("no progress, only the closing table"),
  }),
};

export type SettingName = keyof typeof rolloutSettings;

/** All settings with their values. */
export type RolloutSettings = SettingValues<typeof rolloutSettings>;

export const settingNames = Object.keys(rolloutSettings) as SettingName[];

/** What most people need; the short help lists these. */
export const commonSettings: ReadonlySet<SettingName> = new Set([
  "env",
  "data",
  "tasks",
  "groupSize",
  "engine",
  "url",
  "model",
  "userModel",
  "temperature",
  "maxNewTokens",
  "concurrency",
  "out",
]);

/** Settings that had another name once: old name to new. Old command lines, files and run folders are still read. */
export const renamedSettings: ReadonlyMap<string, string> = new Map([
  ["max-steps", "max-turns"],
  ["samples-per-task", "group-size"],
]);

const namesByKey = new Map(settingNames.map((name) => [keyOf(name), name]));

/** The setting of a key, by its name of today or an earlier one; `undefined`: there is none. */
export function settingOfKey(key: string): SettingName | undefined {
  return namesByKey.get(renamedSettings.get(key) ?? key);
}
