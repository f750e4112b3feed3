// Connects to the servers of a rollout, and checks that each answers and serves the model.

import { AttributedError, ConfigurationError, type Engine } from "../core/index.ts";
import { type CircuitStatus, createGuardedEngine } from "../engines/guarded/index.ts";
import { defaultEngineWait } from "../engines/server-options.ts";
import type { ConnectedEngine, ServerEngine, ServerOptions } from "../parts/engine.ts";
import { milliseconds } from "../parts/setting.ts";
import type { ChosenModel } from "./choose-model.ts";
import { checkServerModel, untilServerIsReady } from "./first-contact.ts";
import type { RolloutSettings } from "./rollout-settings.ts";

/** Parts that a connected engine is built from. */
export type EngineParts = {
  readonly settings: RolloutSettings;
  /** An engine given as a value, which its owner closes; `null` if the settings name one. */
  readonly own: Engine | null;
  /** One for each server. */
  readonly servers: readonly ServerOptions[];
  readonly model: ChosenModel;
  readonly cwd: string;
  readonly cancel: AbortSignal;
  /** Called when the first contact with a server has to wait. */
  readonly onNotice: (message: string) => void;
  readonly onCircuit: (change: CircuitStatus) => void;
};

/** Every server must answer: later, the absence of a mistyped address would never be noticed. */
export async function openServers(
  engines: readonly ServerEngine[],
  product: string,
  parts: EngineParts,
): Promise<ConnectedEngine> {
  const opened = await Promise.allSettled(engines.map((engine) => openServer(engine, product, parts)));
  const failed = opened.find(({ status }) => status === "rejected");
  if (failed?.status === "rejected") {
    await Promise.all(engines.map((engine) => engine.close()));
    throw failed.reason;
  }
  const engine = createGuardedEngine(engines, { maxWaitMs: maxWaitMs(parts.settings), onChange: parts.onCircuit });
  const weightVersion = opened[0]?.status === "fulfilled" ? opened[0].value.weightVersion : null;
  const address = engines.map((one) => one.address).join(", ");
  return { engine, address, weightVersion, close: () => engine.close() };
}

/** Longest time that a call waits while no server accepts requests. */
function maxWaitMs({ engineWait }: RolloutSettings): number {
  return milliseconds(engineWait ?? defaultEngineWait);
}

/** Rejects with a `ConfigurationError` when the server does not answer, or serves another model. */
export async function openServer(engine: ServerEngine, product: string, parts: EngineParts): Promise<ConnectedEngine> {
  const { settings, model, cancel: signal, onNotice } = parts;
  const { maxContextTokens, engineWait } = settings;
  const waiting = { maxWaitMs: maxWaitMs(settings), waitsForUnreachable: engineWait !== null, signal, onNotice };
  try {
    const weightVersion = await untilServerIsReady(engine, waiting, async () => {
      const sampling = Object.keys(settings.samplingExtra);
      await checkServerModel(engine, { ...model, maxContextTokens, sampling, signal });
      if (settings.adapter !== null) await checkAdapter(engine, settings.adapter, signal);
      return engine.weightVersion({ signal });
    });
    return { engine, address: engine.address, weightVersion, close: () => engine.close() };
  } catch (error) {
    await engine.close();
    if (!(error instanceof AttributedError) || error.failure.code === "cancelled") throw error;
    throw refusal(engine.address, error, product);
  }
}

/** A server that does not know the adapter, or ignores it, would sample another policy than the run names. */
async function checkAdapter(engine: ServerEngine, adapter: string, signal: AbortSignal): Promise<void> {
  try {
    await engine.checkAdapter(adapter, { signal });
  } catch (error) {
    if (!(error instanceof AttributedError) || error.failure.code !== "bad-request") throw error;
    throw new ConfigurationError(error.message, { cause: error });
  }
}

function refusal(address: string, error: AttributedError, product: string): ConfigurationError {
  const { code, message } = error.failure;
  if (code === "unreachable" || code === "connection-lost" || code === "timeout") {
    return new ConfigurationError(
      `Cannot reach the ${product.split(" ")[1]} server at ${address} (${reasonOf(message)}); start it, or name another with --url. ` +
        "To see a rollout without a server: --env bookshop --engine expert.",
      { cause: error },
    );
  }
  if (code === "unauthorized") {
    return new ConfigurationError(
      `Cannot use the ${product.split(" ")[1]} server at ${address}: it refuses the key; name the variable that holds the right one with --api-key-env, or --engine-authorization-env.`,
      { cause: error },
    );
  }
  return new ConfigurationError(`${message.replace(/\.$/, "")}; is this ${product} server?`, { cause: error });
}

/** The state in a message of our grammar: the part between the colon and the remedy. */
function reasonOf(message: string): string {
  const colon = message.indexOf(": ");
  if (colon === -1) return message;
  const [reason = ""] = message.slice(colon + 2).split(";", 1);
  return reason.replace(/\.$/, "");
}
