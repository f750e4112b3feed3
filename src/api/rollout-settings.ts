// The table of the settings of `rollout`: flags, keys of configuration files, help and dry run are made from it.
// What the settings lead to is decided where parts are chosen (`prepare-rollout.ts`).

import { z } from "zod";
import { groupSettings } from "./group-settings.ts";
import { limitSettings } from "./limit-settings.ts";
import { isTaskList } from "./task-list.ts";
import { jsonObject, number, type Setting, setting, text, whole } from "./setting.ts";

const taskList = z.preprocess((value) => {
  if (typeof value === "number") return String(value);
  return Array.isArray(value) ? value.join(",") : value;
}, z.string().refine(isTaskList));

export const rolloutSettings = {
  env: setting<string>({
    group: "What is played",
    flag: "--env <name|file>",
    help: "environment: bookshop, tau-bench/retail, tau-bench/airline, or a module whose default export is one (./my-env.ts)",
    wanted: "the name of an environment or a file",
    schema: text,
    default: "bookshop",
  }),
  data: setting<string | null>({
    group: "What is played",
    flag: "--data <folder>",
    help: 'folder with the data of the environment: an upstream checkout of tau-bench, or what "prepare tau-bench" made of one',
    wanted: "a folder",
    schema: text.nullable(),
    default: null,
  }),
  split: setting<string | null>({
    group: "What is played",
    flag: "--split <name>",
    help: "which tasks: train, test, ... (default: the environment's usual one)",
    wanted: "the name of a split",
    schema: text.nullable(),
    default: null,
  }),
  tasks: setting<string | null>({
    group: "What is played",
    flag: "--tasks <list>",
    help: 'indexes of tasks, like 0-49,60, or "all" (default: all; the first 8 of the bookshop)',
    wanted: 'a list like 0-49,60 or "all"',
    schema: taskList.nullable(),
    default: null,
  }),
  samplesPerTask: setting<number>({
    group: "What is played",
    flag: "--samples-per-task <n>",
    help: "episodes of each task; together they are a group",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 1,
  }),
  seed: setting<number>({
    group: "What is played",
    flag: "--seed <n>",
    help: "of the run; everything drawn derives from it, the task and the sample",
    wanted: "a whole number from 0 to 4294967295",
    schema: whole(0, 4_294_967_295),
    default: 0,
  }),
  ...groupSettings,

  engine: setting<"sglang" | "vllm" | "llama-cpp" | "embedded" | "expert" | "own" | null>({
    group: "The policy",
    flag: "--engine <name>",
    help: "sglang, vllm, llama-cpp: a GGUF file in this process, embedded: a small model in this process, or expert: a scripted player of the bookshop; the last three need no server (default: sglang when a server or a model is named)",
    wanted: "sglang, vllm, llama-cpp, embedded or expert",
    schema: z.enum(["sglang", "vllm", "llama-cpp", "embedded", "expert", "own"]).nullable(),
    default: null,
  }),
  gguf: setting<string | null>({
    group: "The policy",
    flag: "--gguf <file>",
    help: "weights for engine llama-cpp, which then plays; --model names the folder of their tokenizer and chat template",
    wanted: "the path of a GGUF file",
    schema: text.nullable(),
    default: null,
  }),
  url: setting<string | null>({
    group: "The policy",
    flag: "--url <address>",
    help: "SGLang server or router, or vLLM server, like http://router:30000; several with commas between them share the episodes",
    wanted: "an address like http://127.0.0.1:30000, or several with commas between them",
    schema: text.nullable(),
    default: null,
  }),
  host: setting<string | null>({
    group: "The policy",
    flag: "--host <name>",
    help: "instead of --url: host of the server (default: 127.0.0.1)",
    wanted: "a host name",
    schema: text.nullable(),
    default: null,
  }),
  port: setting<number | null>({
    group: "The policy",
    flag: "--port <n>",
    help: "instead of --url: port of the server (default: 30000; vLLM: 8000)",
    wanted: "a port from 1 to 65535",
    schema: whole(1, 65_535).nullable(),
    default: null,
  }),
  apiKeyEnv: setting<string | null>({
    group: "The policy",
    flag: "--api-key-env <variable>",
    help: "environment variable with the key of the server",
    wanted: "the name of an environment variable",
    schema: text.nullable(),
    default: null,
  }),
  logprobsMode: setting<"raw" | "processed">({
    group: "The policy",
    flag: "--logprobs-mode <mode>",
    help: "what a vLLM server was started with: raw, or processed (--logprobs-mode processed_logprobs)",
    wanted: "raw or processed",
    schema: z.enum(["raw", "processed"]),
    default: "raw",
  }),
  endpoint: setting<"auto" | "generate" | "completions">({
    group: "The policy",
    flag: "--endpoint <name>",
    help: "where a vLLM server samples: generate (/inference/v1/generate), completions (/v1/completions), or auto: the first where the server has it enabled",
    wanted: "auto, generate or completions",
    schema: z.enum(["auto", "generate", "completions"]),
    default: "auto",
  }),
  model: setting<string | null>({
    group: "The policy",
    flag: "--model <folder>",
    help: "folder with the tokenizer and chat template of the served model (readable: that of the demonstrations)",
    wanted: "a folder",
    schema: text.nullable(),
    default: null,
  }),
  renderer: setting<string | null>({
    group: "The policy",
    flag: "--renderer <family>",
    help: "model family whose chat template is followed (default: told by the template)",
    wanted: "the name of a model family",
    schema: text.nullable(),
    default: null,
  }),
  history: setting<"keep-reasoning" | "branch">({
    group: "The policy",
    flag: "--history <policy>",
    help: "where a template rewrites history: keep-reasoning (only append), or branch (a sample for each rewrite)",
    wanted: "keep-reasoning or branch",
    schema: z.enum(["keep-reasoning", "branch"]),
    default: "keep-reasoning",
  }),
  thinking: setting<"on" | "off" | null>({
    group: "The policy",
    flag: "--thinking <on|off>",
    help: "for models whose template has the switch",
    wanted: "on or off",
    // YAML 1.1 files, and people, write true for on.
    schema: z.preprocess(
      (value) => (typeof value === "boolean" ? (value ? "on" : "off") : value),
      z.enum(["on", "off"]).nullable(),
    ),
    default: null,
  }),
  toolParser: setting<string | null>({
    group: "The policy",
    flag: "--tool-parser <name>",
    help: "what reads tool calls, by SGLang's names (default: the model family's)",
    wanted: "the name of a tool-call parser",
    schema: text.nullable(),
    default: null,
  }),
  reasoningParser: setting<string | null>({
    group: "The policy",
    flag: "--reasoning-parser <name>",
    help: "what splits off reasoning, by SGLang's names, or \"none\" (default: the model family's)",
    wanted: 'the name of a reasoning parser, or "none"',
    schema: text.nullable(),
    default: null,
  }),
  parserMode: setting<"tokens" | "text">({
    group: "The policy",
    flag: "--parser-mode <mode>",
    help: "tokens: a marker spelled out by other tokens is text; text: as SGLang reads",
    wanted: "tokens or text",
    schema: z.enum(["tokens", "text"]),
    default: "tokens",
  }),
  controlTokens: setting<"text" | "parse">({
    group: "The policy",
    flag: "--control-tokens <mode>",
    help: "what control tokens are that users and tools spell out: text, or parse them as servers do",
    wanted: "text or parse",
    schema: z.enum(["text", "parse"]),
    default: "text",
  }),
  repair: setting<boolean>({
    group: "The policy",
    flag: "--repair",
    help: "read calls that are nearly right, each reported as a problem",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),
  agentModel: setting<string | null>({
    group: "The policy",
    flag: "--agent-model <name>",
    help: "model behind an API that is the agent, to be evaluated and not trained: provider/model, or its name on the server of --agent-url",
    wanted: "the name of a model",
    schema: text.nullable(),
    default: null,
  }),
  agentUrl: setting<string | null>({
    group: "The policy",
    flag: "--agent-url <address>",
    help: "OpenAI-compatible server of the agent's model, like http://127.0.0.1:8000/v1",
    wanted: "an address like http://127.0.0.1:8000/v1",
    schema: text.nullable(),
    default: null,
  }),
  agentApiKeyEnv: setting<string | null>({
    group: "The policy",
    flag: "--agent-api-key-env <variable>",
    help: "environment variable with the key of that server or provider (default: the provider's usual one)",
    wanted: "the name of an environment variable",
    schema: text.nullable(),
    default: null,
  }),
  strategy: setting<string>({
    group: "The policy",
    flag: "--strategy <name>",
    help: "how a turn is prompted and read: tool-calling, act, react, few-shot",
    wanted: "the name of a strategy",
    schema: text,
    default: "tool-calling",
  }),
  instruction: setting<string | null>({
    group: "The policy",
    flag: "--instruction <file>",
    help: "for act and react: file with words about how actions are written, in place of our own",
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),
  displays: setting<string | null>({
    group: "The policy",
    flag: "--displays <file>",
    help: 'for few-shot: JSON lines with an example conversation as "messages_display" (default: those of --data)',
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),
  toolInstruction: setting<string | null>({
    group: "The policy",
    flag: "--tool-instruction <file>",
    help: 'file with words about the use of tools, in place of our own; "none" keeps the template\'s',
    wanted: 'a file, or "none"',
    schema: text.nullable(),
    default: null,
  }),
  preset: setting<string | null>({
    group: "The policy",
    flag: "--preset <name>",
    help: "settings for comparison: tau-bench (as its published results were made), slime-tau (the loop of slime's example)",
    wanted: "slime-tau or tau-bench",
    schema: text.nullable(),
    default: null,
  }),
  expertNoise: setting<number>({
    group: "The policy",
    flag: "--expert-noise <p>",
    help: "how often the expert errs at a turn",
    wanted: "a number from 0 to 1",
    schema: number({ min: 0, max: 1 }),
    default: 0.1,
  }),

  temperature: setting<number>({
    group: "Sampling",
    flag: "--temperature <t>",
    help: "0 is greedy",
    wanted: "a number of at least 0",
    schema: number({ min: 0 }),
    default: 1,
  }),
  topP: setting<number>({
    group: "Sampling",
    flag: "--top-p <p>",
    help: "1 cuts nothing off",
    wanted: "a number above 0 and at most 1",
    schema: number({ above: 0, max: 1 }),
    default: 1,
  }),
  topK: setting<number>({
    group: "Sampling",
    flag: "--top-k <k>",
    help: "-1 cuts nothing off",
    wanted: "-1 or a whole number of at least 1",
    schema: whole(-1).refine((value) => value !== 0),
    default: -1,
  }),
  minP: setting<number>({
    group: "Sampling",
    flag: "--min-p <p>",
    help: "0 cuts nothing off",
    wanted: "a number from 0 to 1",
    schema: number({ min: 0, max: 1 }),
    default: 0,
  }),
  repetitionPenalty: setting<number>({
    group: "Sampling",
    flag: "--repetition-penalty <r>",
    help: "1 changes nothing",
    wanted: "a number above 0 and at most 2",
    schema: number({ above: 0, max: 2 }),
    default: 1,
  }),
  maxNewTokens: setting<number>({
    group: "Sampling",
    flag: "--max-new-tokens <n>",
    help: "of one turn",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 1024,
  }),
  samplingExtra: setting<Readonly<Record<string, unknown>>>({
    group: "Sampling",
    flag: "--sampling-extra <json>",
    help: "further parameters for the engine, sent as they are",
    wanted: "a JSON object",
    schema: jsonObject,
    default: {},
  }),
  seedTurns: setting<boolean>({
    group: "Sampling",
    flag: "--seed-turns",
    help: "give every turn a sampling seed of its own (servers with deterministic sampling)",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),

  user: setting<string | null>({
    group: "The user",
    flag: "--user <name>",
    help: "agenda, llm, react, verify, reflection, human, scripted (default: the first that the environment lists)",
    wanted: "the name of a user",
    schema: text.nullable(),
    default: null,
  }),
  userModel: setting<string | null>({
    group: "The user",
    flag: "--user-model <name>",
    help: "model that plays the user: provider/model, or its name on the server of --user-url",
    wanted: "the name of a model",
    schema: text.nullable(),
    default: null,
  }),
  userUrl: setting<string | null>({
    group: "The user",
    flag: "--user-url <address>",
    help: "OpenAI-compatible server of the user's model, like http://127.0.0.1:8000/v1",
    wanted: "an address like http://127.0.0.1:8000/v1",
    schema: text.nullable(),
    default: null,
  }),
  userApiKeyEnv: setting<string | null>({
    group: "The user",
    flag: "--user-api-key-env <variable>",
    help: "environment variable with the key of that server or provider (default: the provider's usual one)",
    wanted: "the name of an environment variable",
    schema: text.nullable(),
    default: null,
  }),
  userLines: setting<string | null>({
    group: "The user",
    flag: "--user-lines <file>",
    help: "what the scripted user says, one line each",
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),
  userPrompts: setting<"data" | "own">({
    group: "The user",
    flag: "--user-prompts <whose>",
    help: "texts that make a model play the user: those of the data folder where it has some, or our own",
    wanted: "data or own",
    schema: z.enum(["data", "own"]),
    default: "data",
  }),
  userCompat: setting<"sane" | "upstream">({
    group: "The user",
    flag: "--user-compat <which>",
    help: "upstream: model users keep the quirks of the tau-bench reference, for comparison with it",
    wanted: "sane or upstream",
    schema: z.enum(["sane", "upstream"]),
    default: "sane",
  }),
  recordUsers: setting<string | null>({
    group: "The user",
    flag: "--record-users <file>",
    help: "write every exchange with the user to a new file, as JSON lines",
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),
  replayUsers: setting<string | null>({
    group: "The user",
    flag: "--replay-users <file>",
    help: "play the users of such a file, without a model; tasks, trials and seed must be those of the recording",
    wanted: "a file",
    schema: text.nullable(),
    default: null,
  }),

  ...limitSettings,

  out: setting<string | null>({
    group: "Output",
    flag: "--out <folder>",
    help: "run folder; must be new or empty (default: runs/<time>-<env>)",
    wanted: "a folder",
    schema: text.nullable(),
    default: null,
  }),
  fsync: setting<"always" | "never" | number>({
    group: "Output",
    flag: "--fsync <when>",
    help: "when the journal is forced to the disk: always (before an event counts), never, or so many milliseconds later; a killed process loses nothing either way",
    wanted: "always, never or a number of milliseconds",
    schema: z.union([z.enum(["always", "never"]), number({ min: 1, max: 3_600_000 })]),
    default: 1000,
  }),
  writeSamples: setting<boolean>({
    group: "Output",
    flag: "--write-samples",
    help: "write samples.jsonl, a training row a line, while the run goes on; export --format samples makes the same file afterwards",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),
  faultPolicy: setting<"keep" | "mask" | "drop">({
    group: "Output",
    flag: "--fault-policy <policy>",
    help: "samples of episodes that failed through the user or the environment: keep, mask (in the group, outside the loss), drop",
    wanted: "keep, mask or drop",
    schema: z.enum(["keep", "mask", "drop"]),
    default: "keep",
  }),
  metrics: setting<string | null>({
    group: "Output",
    flag: "--metrics <list>",
    help: "prometheus, prometheus:<port> (a page to scrape, port 9464), tensorboard (event files in the run folder), traces (OpenTelemetry spans, for a process started with an SDK); several with commas",
    wanted: "a list of prometheus, prometheus:<port>, tensorboard and traces, with commas between them,",
    schema: text
      .refine((list) =>
        list.split(",").every((name) => {
          const [, port = "0"] = /^(?:tensorboard|traces|prometheus(?::(\d{1,5}))?)$/.exec(name.trim()) ?? ["", "none"];
          return Number(port) <= 65_535;
        }),
      )
      .nullable(),
    default: null,
  }),
  logJson: setting<boolean>({
    group: "Output",
    flag: "--log-json",
    help: "log lines for machines on standard error: retries, failures, ends of episodes and groups",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),
  quiet: setting<boolean>({
    group: "Output",
    flag: "--quiet",
    help: "no progress, only the closing table",
    wanted: "true or false",
    schema: z.boolean(),
    default: false,
  }),
} as const;

export type SettingName = keyof typeof rolloutSettings;

/** All settings with their values. */
export type RolloutSettings = {
  readonly [Name in SettingName]: (typeof rolloutSettings)[Name] extends Setting<infer T> ? T : never;
};

export const settingNames = Object.keys(rolloutSettings) as SettingName[];

/** The name in configuration files and, after two dashes, on the command line: `samples-per-task`. */
export function settingKey(name: SettingName): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Settings that had another name once: old name to new. Old command lines, files and run folders are still read. */
export const renamedSettings: ReadonlyMap<string, string> = new Map([["max-steps", "max-turns"]]);

const namesByKey = new Map(settingNames.map((name) => [settingKey(name), name]));

/** The setting of a key, by its name of today or an earlier one; `undefined`: there is none. */
export function settingOfKey(key: string): SettingName | undefined {
  return namesByKey.get(renamedSettings.get(key) ?? key);
}
