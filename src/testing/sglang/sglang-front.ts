// A server that speaks SGLang's native protocol in front of any sampler. One front for all
// purposes: with a scripted or a fault sampler it is the fake server of the tests, with a model it
// is a real one. It checks requests as strictly as SGLang does, because a lenient fake hides the
// faults it exists to find. It has no OpenAI-compatible endpoints.

import { Hono } from "hono";
import type { Tokenizer } from "../../core/tokenizer.ts";
import { systemClock, type Clock } from "../../lib/clock.ts";
import { isFromThisMachine } from "../../lib/address.ts";
import { AdapterTable, type FrontAdapters } from "../front/adapters.ts";
import { type Front, type FrontApp, type FrontEnvironment, frontOf } from "../front/front-server.ts";
import { addAdapterRoutes, addControlRoutes, type FrontState, addInfoRoutes, addTokenizerRoutes } from "./routes.ts";
import { serveGenerate } from "./generate.ts";
import { sglangProtocols, type SglangVersion, Refusal } from "./protocol.ts";
import { RequestTable } from "../front/run-sequence.ts";
import type { Sampler } from "../front/sampler.ts";

export type SglangFrontOptions = {
  readonly sampler: Sampler;
  /** Version whose replies and refusals the front gives. Default "0.5.23". */
  readonly version?: SglangVersion;
  /** Name that the server gives its model. Default "model". */
  readonly modelPath?: string;
  /**
   * Maximum number of tokens of prompt and completion together; it must exceed the prompt by more
   * than `reservedTokens`. Default 32,768.
   */
  readonly contextLength?: number;
  /**
   * First id that is refused. Default: the tokenizer's vocabulary size, or no limit without a
   * tokenizer.
   */
  readonly vocabularySize?: number;
  /** The model's own end tokens. Default: none. */
  readonly endTokenIds?: readonly number[];
  /**
   * Tokenizer of the server. Without one it has no text: neither prompts nor answers, and stop
   * strings have no effect. Default `null`.
   */
  readonly tokenizer?: Tokenizer | null;
  /**
   * Version of the weights at the start. Default "default", as for a server that was started
   * without one.
   */
  readonly weightVersion?: string;
  /** Key that every path except health requires as a bearer token. Default `null`: none is required. */
  readonly apiKey?: string | null;
  /**
   * True to refuse requests that pages of other sites send through a browser of this machine; for a
   * server without a key. Default false.
   */
  readonly refusesStrangers?: boolean;
  /** Key that paths which change the server require instead of `apiKey`. Default `null`. */
  readonly adminApiKey?: string | null;
  /**
   * Content of a frame in a stream: all output so far, or only the new part
   * (--incremental-streaming-output; 0.5.9: --stream-output, only ids). Default "cumulative".
   */
  readonly streamOutput?: "cumulative" | "delta";
  /**
   * The experts that a mixture-of-experts model chooses for a token of a sequence: one number for
   * each layer and choice. Default: the model has no experts, and a request for them is answered
   * without them.
   */
  readonly routedExperts?: (sequence: ArrayLike<number>, place: number) => readonly number[];
  /** Adapters of a server started with --enable-lora. Default `null`: without it. */
  readonly adapters?: FrontAdapters | null;
  /**
   * The ids from which sampling drew a token of a sequence; the sampler's logprobs are then over
   * them. Default: a request for them is answered without them, as by an older server.
   */
  readonly samplingMask?: (sequence: ArrayLike<number>, place: number) => readonly number[];
  /** Clock that measures latencies. Default: the real one. */
  readonly clock?: Clock;
};

export type SglangFront = Front & {
  /** The version of the weights that the server reports now. */
  weightVersion(): string;
};

/**
 * Makes a front.
 *
 * @example
 * const front = createSglangFront({ sampler: createFunctionSampler(() => ({ ids: [1, 2] })) });
 * const listener = await front.listen();
 */
export function createSglangFront(options: SglangFrontOptions): SglangFront {
  const { sampler, tokenizer = null, clock = systemClock, contextLength = 32_768, endTokenIds = [] } = options;
  const protocol = sglangProtocols[options.version ?? "0.5.23"];
  const adapters = (options.adapters ?? null) === null ? null : new AdapterTable(options.adapters!);
  const vocabularySize = options.vocabularySize ?? tokenizer?.vocabularySize ?? null;
  const state: FrontState = {
    sampler,
    table: new RequestTable(),
    clock,
    version: { current: options.weightVersion ?? "default" },
    modelPath: options.modelPath ?? "model",
    limits: { contextLength, vocabularySize, endTokenIds, tokenizer, protocol, adapters },
    routedExperts: options.routedExperts ?? null,
    samplingMask: options.samplingMask ?? null,
    streamOutput: options.streamOutput ?? "cumulative",
    refusalOf: (refusal) => {
      if (refusal === null) return Refusal.crash();
      const { status, message } = refusal;
      return status === 400 ? Refusal.ofValue(message) : Refusal.ofScheduler(status, message);
    },
  };
  const app = new Hono<FrontEnvironment>();
  if (options.refusesStrangers === true) {
    app.use(async (context, next) => {
      if (
        !isFromThisMachine({ host: context.req.header("host") ?? null, origin: context.req.header("origin") ?? null })
      )
        throw Refusal.forbidden();
      return next();
    });
  }
  addKeyCheck(app, { apiKey: options.apiKey ?? null, adminApiKey: options.adminApiKey ?? null });
  app.on(["POST", "PUT"], "/generate", (context) => serveGenerate(context, state));
  addControlRoutes(app, state);
  if (adapters !== null) addAdapterRoutes(app, adapters);
  addInfoRoutes(app, state);
  addTokenizerRoutes(app, state);
  app.notFound(() => {
    throw Refusal.notFound(protocol.notFound);
  });
  const front = frontOf(app, state.table, (error) =>
    (error instanceof Refusal ? error.asReportedBy(protocol) : Refusal.crash()).toAnswer(),
  );
  return { ...front, weightVersion: () => state.version.current };
}

/** Paths that change the server: if there is an admin key, only that key opens them. */
const adminPaths =
  /^\/(abort_request|pause_generation|continue_generation|flush_cache|update_weight_version|update_weights_from_disk)$/;

function addKeyCheck(
  app: FrontApp,
  keys: { readonly apiKey: string | null; readonly adminApiKey: string | null },
): void {
  app.use(async (context, next) => {
    const { path } = context.req;
    if (path.startsWith("/health") || path === "/ready") return next();
    const given = context.req.header("authorization");
    if (keys.adminApiKey !== null && adminPaths.test(path)) {
      if (given !== `Bearer ${keys.adminApiKey}`) throw Refusal.forbidden();
    } else if (keys.apiKey !== null && given !== `Bearer ${keys.apiKey}`) {
      throw Refusal.unauthorized();
    }
    return next();
  });
}
