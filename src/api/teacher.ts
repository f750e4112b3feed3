// The teacher of a run: an engine that scores, chosen by the same settings as the engine of a
// rollout, and checked against the tokenizer of the policy whose tokens it scores.

import { randomUUID } from "node:crypto";
import { AttributedError, ConfigurationError, type Engine, type Tokenizer } from "../core/index.ts";
import type { Scorer, ScoreRequest, ScoreResult } from "../core/scoring.ts";
import { createSemaphore, retry } from "../lib/limits.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { defaultEngineRetry, routingKeyOf } from "../rollout/loop.ts";
import type { Teacher } from "../store/index.ts";
import { milliseconds } from "../parts/setting.ts";
import { chooseEngineName, connectEngine, serverOptions } from "./choose-engine.ts";
import { chooseModel, readableModel, tokenizerOf } from "./choose-model.ts";
import { engineNames, engineRow, type engineOptions } from "./engines.ts";
import { probe } from "./first-contact.ts";
import { withShippedModel } from "./model-path.ts";
import { type CallOptions, readOptions } from "./options.ts";
import { concurrencyBounds, type RolloutSettings } from "./rollout-settings.ts";

/** The engine of a teacher and its options, named as those of a rollout. */
export type TeacherOptions = Partial<Pick<RolloutSettings, keyof typeof engineOptions & keyof RolloutSettings>> & {
  /** Name of the engine that scores, or an engine of your own, which you close. */
  readonly teacher: string | Engine;
  /**
   * Model folder: of the weights for the embedded engine; of the tokenizer for a server.
   * @default "bookshop-1m" for the embedded engine, else the run's own
   */
  readonly model?: string | null;
  /**
   * Number of most probable tokens to list for each position, 0 to 256; a vLLM server allows 20
   * unless it was started with --max-logprobs.
   * @default 0
   */
  readonly topTokens?: number;
};

export type OpenTeacher = {
  readonly engine: Engine & Scorer;
  readonly facts: Teacher;
  readonly topTokens: number;
  readonly calls: number;
  readonly timeoutMs: number;
  close(): Promise<void>;
};

/** The policy whose tokens are scored: its model folder, and the run that names it. */
export type Student = { readonly folder: string | null; readonly run?: string };

/** Engines that sample without a model. */
const scoreless: readonly string[] = ["expert", "none", "own"];

/**
 * Opens the engine. Rejects with a `ConfigurationError` if it cannot score, does not answer, or has
 * another tokenizer than the student.
 */
export async function openTeacher(
  options: TeacherOptions & Partial<Pick<RolloutSettings, "concurrency" | "turnTimeout">>,
  {
    cwd,
    variables,
    signal = new AbortController().signal,
    student,
    onNotice,
  }: Required<Pick<CallOptions, "cwd" | "variables">> & {
    readonly signal: AbortSignal | undefined;
    readonly student: Student;
    readonly onNotice: (message: string) => void;
  },
): Promise<OpenTeacher> {
  const { teacher, topTokens = 0, ...rest } = options;
  if (typeof teacher === "string" && (scoreless.includes(teacher) || engineRow(teacher) === null)) {
    const scorers = engineNames.filter((name) => !scoreless.includes(name)).join(", ");
    throw new ConfigurationError(
      `Cannot score with engine "${teacher}": it gives no logprobs of tokens; use one of ${scorers}.`,
    );
  }
  const isServer = typeof teacher === "string" && engineRow(teacher)?.type === "server";
  const ownTokens = await tokenizerOf(student.folder, cwd, student.run);
  const model =
    rest.model ??
    (isServer || typeof teacher !== "string" ? (ownTokens === null ? readableModel : student.folder) : null);
  const { settings: given } = await readOptions({
    ...engineOptionsIn(rest),
    engine: teacher as RolloutSettings["engine"],
    model: model ?? (isServer ? readableModel : null),
    cwd,
    variables,
  });
  const own = typeof teacher === "string" ? null : teacher;
  const name = chooseEngineName(given, own !== null);
  const settings = withShippedModel(given);
  const chosen = await chooseModel(settings, cwd);
  if (ownTokens !== null)
    refuseOtherTokens(ownTokens, chosen.tokenizer, { student: student.folder, teacher: chosen.folder });
  const connected = await connectEngine(name, {
    settings,
    own,
    servers: own === null && isServer ? serverOptions(settings, variables) : [],
    model: chosen,
    cwd,
    cancel: signal,
    onNotice,
    onCircuit: () => undefined,
  });
  const { engine } = connected;
  if (engine.score === undefined) {
    await connected.close();
    throw new ConfigurationError(
      `Cannot score with engine "${engine.name}": it gives no logprobs of tokens; use an engine that has "score".`,
    );
  }
  const weights = settings.gguf ?? (isServer || own !== null ? null : (rest.model ?? "bookshop-1m"));
  return {
    engine: engine as Engine & Scorer,
    facts: { engine: engine.name, model: weights, weightVersion: connected.weightVersion, topTokens },
    topTokens,
    calls: concurrencyBounds(settings.concurrency).ceiling,
    timeoutMs: milliseconds(settings.turnTimeout),
    close: () => connected.close(),
  };
}

/** The options that settings of a rollout have. */
function engineOptionsIn(options: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const names = [
    "url",
    "host",
    "port",
    "apiKeyEnv",
    "engineAuthorizationEnv",
    "connectTimeout",
    "firstByteTimeout",
    "engineWait",
  ];
  const others = ["adapter", "endpoint", "gguf", "ggufAdapter", "concurrency", "turnTimeout", "maxContextTokens"];
  return Object.fromEntries(
    [...names, ...others].flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
  );
}

/** Ids mean other tokens in another vocabulary, and their scores would be noise. */
function refuseOtherTokens(
  student: Tokenizer,
  teacher: Tokenizer,
  folders: { readonly student: string | null; readonly teacher: string | null },
): void {
  const [ours, theirs] = [student.encode(probe), teacher.encode(probe)];
  if (ours.length === theirs.length && ours.every((id, at) => id === theirs[at])) return;
  const nameOf = (folder: string | null): string => (folder === null ? "the readable tokenizer" : `"${folder}"`);
  throw new ConfigurationError(
    `Cannot score tokens of ${nameOf(folders.student)} with ${nameOf(folders.teacher)}: their vocabularies differ, and the ids would mean other tokens; use a teacher with the same tokenizer.`,
  );
}

type ScoreLimits = {
  /** Deadline of one call in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
};

/** Servers refuse the id of a call in flight, and other processes score rows of the same names. */
const processTag = randomUUID();

/** Scores tokens with the retries and the deadline of an engine call; `requestId` is any unique text. */
export function scoreTokens(
  engine: Engine & Scorer,
  request: ScoreRequest,
  { timeoutMs, signal }: ScoreLimits,
): Promise<ScoreResult> {
  const key = routingKeyOf(`${request.requestId}@${processTag}`);
  const score = async (attempt: number): Promise<ScoreResult> => {
    const timeout = AbortSignal.timeout(timeoutMs);
    const ending = signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
    try {
      return await engine.score({ ...request, requestId: `${key}_s${attempt}` }, { signal: ending });
    } catch (error) {
      throw timeout.aborted && signal?.aborted !== true ? timedOut(engine.name, timeoutMs) : error;
    }
  };
  return retry(score, defaultEngineRetry, {
    random: createRandom(deriveSeed(0, request.requestId)).next,
    signal,
    classify: (error) => ({
      retry: error instanceof AttributedError && error.failure.retryable,
      afterMs: error instanceof AttributedError ? error.retryAfterMs : null,
    }),
  });
}

function timedOut(engine: string, timeoutMs: number): AttributedError {
  const message = `Cannot score tokens with engine "${engine}": it did not answer within ${timeoutMs} ms; raise --turn-timeout or lower --concurrency.`;
  return new AttributedError({ boundary: "engine", code: "timeout", message, retryable: true, cause: null });
}

/**
 * A function that resolves with the teacher's logprobs at the targets of sequences, in their order.
 * It rejects with the failure of a call that retries did not cure.
 */
export function teacherLogprobs(
  { engine, calls, timeoutMs }: OpenTeacher,
  signal: AbortSignal,
): (
  sequences: readonly { readonly tokens: Uint32Array; readonly targets: Uint32Array }[],
) => Promise<readonly Float32Array[]> {
  const semaphore = createSemaphore(calls);
  let count = 0;
  return (sequences) =>
    Promise.all(
      sequences.map(async ({ tokens, targets }) => {
        const from = targets[0];
        if (from === undefined) return new Float32Array(0);
        const id = `step-${count++}`;
        const call = { tokens, from, topTokens: 0, requestId: id, routingKey: null };
        const { logprobs } = await semaphore.run(() => scoreTokens(engine, call, { timeoutMs, signal }), signal);
        return Float32Array.from(targets, (place) => logprobs[place - from]!);
      }),
    );
}
