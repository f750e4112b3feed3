// Checks of a server's LoRA adapters, for `trainable-agents doctor engine`: faults with which a run
// would train on tokens of another policy than it records. Adapters that it loads have names of
// their own, and are unloaded.

import { randomUUID } from "node:crypto";
import type { AdapterControl } from "../core/adapters.ts";
import { defaultSampling, type Engine, type SampleResult } from "../core/engine.ts";
import { AttributedError, messageOf } from "../core/failure.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { answerDistance } from "../http/index.ts";
import type { CheckOutcome } from "./examine-engine.ts";

export type AdapterExamination = {
  readonly engine: Engine & AdapterControl;
  /** Adapter that the server has; `null`: only the folders are used. */
  readonly adapter: string | null;
  /** Folders of up to two different adapters, as the server sees them. */
  readonly folders: readonly string[];
  /** Exchanges the weights of a loaded name; `null` for a server that cannot. */
  readonly loadInPlace: ((adapter: { readonly name: string; readonly path: string }) => Promise<void>) | null;
  /** Once it aborts, no further check begins. */
  readonly signal?: AbortSignal;
  readonly onOutcome?: (outcome: CheckOutcome) => void;
};

/** Ids that every vocabulary contains. */
const promptIds = [1, 2, 3, 4, 5, 6, 7, 8];
const shortTokens = 16;
const longTokens = 256;
/** Calls in a batch of base and adapter calls, half of each. */
const batchCalls = 6;
/** Batches move logprobs by rounding; a larger difference, in nats, is another model. */
const mostRounding = 0.05;

/** The check does not apply, for this reason. */
class Inapplicable extends Error {}

/** Runs the checks one after the other, and resolves with an outcome for each. Never rejects. */
export async function examineAdapters(options: AdapterExamination): Promise<readonly CheckOutcome[]> {
  const { signal, onOutcome } = options;
  const outcomes: CheckOutcome[] = [];
  for (const [name, check] of Object.entries(checks)) {
    if (signal?.aborted === true) break;
    let [result, reason]: [CheckOutcome["result"], string | null] = ["ok", null];
    try {
      await check(options);
    } catch (error) {
      result = error instanceof Inapplicable ? "not applicable" : "failed";
      reason = messageOf(error).slice(0, 500);
    }
    outcomes.push({ name, result, reason });
    onOutcome?.({ name, result, reason });
  }
  return outcomes;
}

const checks: Readonly<Record<string, (options: AdapterExamination) => Promise<void>>> = {
  "an adapter's name selects it": (options) => withAdapter(options, (name) => options.engine.checkAdapter(name)),

  "an unknown adapter is refused": async ({ engine }) => {
    const name = temporaryName();
    if (await answers(engine, name)) throw new Error(`it answers under ${name}, which was never loaded`);
  },

  "base calls are unchanged by adapters in the same batch": (options) =>
    withAdapter(options, async (name) => {
      const { engine } = options;
      const call = (adapter: string | null): Promise<SampleResult> => sample(engine, adapter, shortTokens);
      const alone = await call(null);
      const bases = await Promise.all(Array.from({ length: batchCalls }, () => call(null)));
      const mixed = await Promise.all(
        Array.from({ length: batchCalls }, (_, index) => call(index % 2 === 0 ? null : name)),
      );
      const noise = Math.max(...bases.map((one) => answerDistance(alone, one)));
      const change = Math.max(...mixed.map((one, index) => (index % 2 === 0 ? answerDistance(alone, one) : 0)));
      if (change <= mostRounding || change <= 2 * noise) return;
      const size = change === Infinity ? "other tokens" : `logprobs that differ by ${change.toFixed(2)}`;
      throw new Error(
        `the base answers with ${size} while an adapter answers beside it; with vLLM, start it with --max-loras of one more than the adapters in use`,
      );
    }),

  "an unloaded adapter is refused": async (options) => {
    const { engine, folders } = options;
    const path = folders[0] ?? inapplicable("no folder is named: --adapter-folders");
    const name = temporaryName();
    await engine.loadAdapter({ name, path });
    try {
      await sample(engine, name, 1);
    } finally {
      await engine.unloadAdapter(name);
    }
    if (!(await answers(engine, name))) return;
    await engine.unloadAdapter(name);
    throw new Error(
      "it answers under a name that was unloaded (SGLang loads its last folder again); never use a name again",
    );
  },

  "a call keeps the weights with which it began": async ({ engine, folders, loadInPlace }) => {
    const [path, other] = folders;
    if (loadInPlace === null) throw new Inapplicable("the server does not exchange adapters in place");
    if (path === undefined || other === undefined) throw new Inapplicable("it needs two folders: --adapter-folders");
    const name = temporaryName();
    await engine.loadAdapter({ name, path });
    try {
      const before = await sample(engine, name, longTokens);
      const exchange: Promise<unknown>[] = [];
      let isExchanged = false;
      const during = await sample(engine, name, longTokens, () => {
        if (exchange.length > 0) return;
        const exchanged = loadInPlace({ name, path: other }).then(
          () => void (isExchanged = true),
          (error: unknown) => error,
        );
        exchange.push(exchanged);
      }).catch((error: unknown) => {
        // The server reported the change by spans, so the engine refused the reply.
        if (error instanceof AttributedError && error.failure.code === "server-error") return before;
        throw error;
      });
      const endedFirst = !isExchanged;
      const [fault] = await Promise.all(exchange);
      if (fault !== undefined) throw fault;
      if (answerDistance(before, during) > mostRounding) {
        throw new Error(
          "an adapter that was exchanged in place continued a call with its new weights, and no span shows it; load new weights under a new name",
        );
      }
      if (endedFirst) inapplicable("the call ended before the adapter was exchanged");
    } finally {
      await engine.unloadAdapter(name);
    }
  },
};

function inapplicable(reason: string): never {
  throw new Inapplicable(reason);
}

const temporaryName = (): string => `doctor-${randomUUID()}`;

/** Runs a check with the named adapter, or with the first folder under a temporary name. */
async function withAdapter(
  { engine, adapter, folders }: AdapterExamination,
  check: (name: string) => Promise<void>,
): Promise<void> {
  if (adapter !== null) return check(adapter);
  const path = folders[0] ?? inapplicable("no adapter is named");
  const name = temporaryName();
  await engine.loadAdapter({ name, path });
  try {
    await check(name);
  } finally {
    await engine.unloadAdapter(name);
  }
}

/** False if the server refuses the name. */
async function answers(engine: Engine, name: string): Promise<boolean> {
  try {
    await sample(engine, name, 1);
    return true;
  } catch (error) {
    if (error instanceof AttributedError && error.failure.code === "bad-request") return false;
    throw error;
  }
}

/** A greedy answer. */
function sample(
  engine: Engine,
  adapter: string | null,
  maxNewTokens: number,
  onTokens?: (tokens: Uint32Array) => void,
): Promise<SampleResult> {
  const sampling = { ...defaultSampling, temperature: 0, maxNewTokens, extra: { ignore_eos: true }, adapter };
  const prompt = TokenBuffer.from(promptIds);
  const request = { prompt, sampling, stopTokenIds: [], requestId: `doctor-${randomUUID()}`, routingKey: null };
  return engine.sample(request, onTokens === undefined ? {} : { onTokens });
}
