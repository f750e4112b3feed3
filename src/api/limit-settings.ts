// Settings of `rollout` that bound an episode: steps, tokens, and how long each of its parts may take.

import { z } from "zod";
import { concurrencySetting } from "./concurrency-setting.ts";
import { number, setting, whole } from "./setting.ts";

/** As long as a timer can be. */
const seconds = number({ above: 0, max: 2_000_000 });

/** Seconds. */
export const defaultEngineWait = 300;

export const limitSettings = {
  maxTurns: setting<number>({
    group: "Limits",
    flag: "--max-turns <n>",
    help: "turns of an episode",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 30,
  }),
  maxSampledTokens: setting<number | null>({
    group: "Limits",
    flag: "--max-sampled-tokens <n>",
    help: "sampled tokens of an episode (default: no bound of its own)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  maxContextTokens: setting<number | null>({
    group: "Limits",
    flag: "--max-context-tokens <n>",
    help: "context of the served model (default: left to the server)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  maxResultCharacters: setting<number>({
    group: "Limits",
    flag: "--max-result-characters <n>",
    help: "characters of a tool's result that the policy reads; longer ones are cut with a note",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 100_000,
  }),
  turnTimeout: setting<number>({
    group: "Limits",
    flag: "--turn-timeout <seconds>",
    help: "of one engine call",
    wanted: "a number of seconds above 0",
    schema: seconds,
    default: 600,
  }),
  connectTimeout: setting<number>({
    group: "Limits",
    flag: "--connect-timeout <seconds>",
    help: "of a connection to the engine's server",
    wanted: "a number of seconds above 0",
    schema: seconds,
    default: 10,
  }),
  firstByteTimeout: setting<number | null>({
    group: "Limits",
    flag: "--first-byte-timeout <seconds>",
    help: "of the beginning of a reply of the engine (default: that of the whole call)",
    wanted: "a number of seconds above 0",
    schema: seconds.nullable(),
    default: null,
  }),
  engineWait: setting<number | null>({
    group: "Limits",
    flag: "--engine-wait <seconds>",
    help: `how long a turn, and the first contact, waits for an engine's server that takes no requests (default: ${defaultEngineWait}; unless given, the first contact does not wait for one that cannot be reached)`,
    wanted: "a number of seconds above 0",
    schema: seconds.nullable(),
    default: null,
  }),
  onEngineAbort: setting<"continue" | "restart" | "end">({
    group: "Limits",
    flag: "--on-engine-abort <what>",
    help: "a turn that the server aborts for new weights: continue from its tokens, restart it, or end the episode",
    wanted: "continue, restart or end",
    schema: z.enum(["continue", "restart", "end"]),
    default: "continue",
  }),
  maxPause: setting<number>({
    group: "Limits",
    flag: "--max-pause <seconds>",
    help: "how long a turn that the server has aborted waits for it to take requests again",
    wanted: "a number of seconds above 0",
    schema: seconds,
    default: 900,
  }),
  environmentTimeout: setting<number>({
    group: "Limits",
    flag: "--environment-timeout <seconds>",
    help: "of one call of a tool; one that never yields ends the program with exit code 70, to be resumed",
    wanted: "a number of seconds above 0",
    schema: seconds,
    default: 60,
  }),
  userTimeout: setting<number | null>({
    group: "Limits",
    flag: "--user-timeout <seconds>",
    help: "of one line of the user, retries included (default: 900; a human has all the time)",
    wanted: "a number of seconds above 0",
    schema: seconds.nullable(),
    default: null,
  }),
  gradingTimeout: setting<number>({
    group: "Limits",
    flag: "--grading-timeout <seconds>",
    help: "of the grading of an episode",
    wanted: "a number of seconds above 0",
    schema: seconds,
    default: 120,
  }),
  concurrency: concurrencySetting,
} as const;
