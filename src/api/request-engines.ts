// The engines that requests name: one connection for each, made when it is needed.

import { type AdapterControl, ConfigurationError } from "../core/index.ts";
import { withDeadline } from "../lib/deadline.ts";
import { parseBaseUrl, showAddress } from "../http/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { PolicyRequest } from "../service/index.ts";
import type { ConnectedPolicy } from "./choose-policy.ts";
import { engineRow } from "./engines.ts";
import type { PreparedRollout } from "./prepare-rollout.ts";

/** Maximum number of addresses that requests of one service may name; more are a mistake. */
const mostEngines = 64;
/** Longest time that a report of weights waits for the first contact. */
const contactMs = 2000;

/** One connection for each engine that requests name, made when it is needed. */
export function createEngines(
  { settings, sampling: base }: PreparedRollout,
  connectTo: (url: string | null) => Promise<ConnectedPolicy>,
) {
  const connections = new Map<string | null, Promise<ConnectedPolicy>>();
  const connected = new Set<ConnectedPolicy>();
  /** Gives a new connection the version that the trainer reported last. */
  let report: (policy: ConnectedPolicy) => Promise<void> = () => Promise.resolve();

  const checkCount = (url: string | null): void => {
    if (connections.has(url) || connections.size < mostEngines) return;
    throw new ConfigurationError(
      `Cannot use another engine: requests have named ${mostEngines} already; put a router in front of them.`,
    );
  };
  const connect = (url: string | null): Promise<ConnectedPolicy> => {
    const known = connections.get(url);
    if (known !== undefined) return known;
    // Many requests may have been accepted before the first of them connects.
    checkCount(url);
    const connecting = connectTo(url).then(async (policy) => {
      // The policy is added first, so that a report which arrives during this one reaches it as
      // well.
      connected.add(policy);
      await report(policy);
      return policy;
    });
    connections.set(url, connecting);
    // A server that was absent may be present for the next request.
    connecting.catch(() => connections.delete(url));
    return connecting;
  };

  const ofAll = async (work: (engine: AdapterControl) => Promise<void>): Promise<void> => {
    await Promise.all([...connected].map(async ({ engine }) => work(withAdapters(engine))));
  };

  return {
    connect,
    runner({ engineUrl, sampling }: PolicyRequest): RunEpisode {
      if (engineUrl !== null && engineRow(settings.engine)?.type === "local") {
        throw new ConfigurationError(
          `Cannot use the engine of the request: this service runs engine "${settings.engine}"; leave "engine" out, or start the service with --engine sglang.`,
        );
      }
      if (engineUrl !== null) checkAddress(engineUrl);
      checkCount(engineUrl);
      const merged = { ...base, ...sampling };
      return async (task, place) => {
        const { runEpisode } = await connect(engineUrl);
        return runEpisode(task, { ...place, sampling: place.sampling ?? merged });
      };
    },
    /**
     * Resolves when all connected engines know the version; others get it before their first call.
     * Returns the versions that their servers name, `null` for a server that names none; the engine
     * of the settings is connected for that, if it answers at once.
     */
    async reportWeightVersion(version: string, onFault: (error: unknown) => void): Promise<readonly (string | null)[]> {
      const versionsOf = async ({ engine, weightVersion }: ConnectedPolicy): Promise<readonly (string | null)[]> =>
        (await engine?.reportWeightVersion?.(version).catch(onFault)) ?? [weightVersion];
      report = async (policy) => void (await versionsOf(policy));
      const isNamed = [settings.engine, settings.url, settings.host, settings.port].some((value) => value !== null);
      if (connected.size === 0 && isNamed) {
        await withDeadline(() => connect(null), { timeoutMs: contactMs }).catch(() => undefined);
      }
      return (await Promise.all([...connected].map(versionsOf))).flat();
    },
    /**
     * Loads an adapter on the servers of all connected engines, or of the settings if none is, and
     * checks that they sample under it. Rejects with the first failure.
     */
    async useAdapter({ name, path }: { readonly name: string; readonly path: string | null }): Promise<void> {
      if (connected.size === 0) await connect(null);
      await ofAll(async (engine) => {
        if (path !== null) await engine.loadAdapter({ name, path });
        await engine.checkAdapter(name);
      });
    },
    unloadAdapter: (name: string): Promise<void> => ofAll((engine) => engine.unloadAdapter(name)),
    async close(): Promise<void> {
      const settled = await Promise.allSettled(connections.values());
      await Promise.all(settled.map(async (one) => (one.status === "fulfilled" ? one.value.close() : undefined)));
    },
  };
}

/** Throws a `ConfigurationError` for an engine without adapters. */
function withAdapters(engine: ConnectedPolicy["engine"]): AdapterControl {
  if (engine?.checkAdapter !== undefined) return engine as AdapterControl;
  throw new ConfigurationError(
    `Cannot use an adapter with engine "${engine?.name ?? "none"}": it has none; start the service with --engine sglang or vllm.`,
  );
}

/**
 * Throws a `ConfigurationError` for an invalid address in a request, and for one with a secret,
 * since requests are stored unchanged.
 */
function checkAddress(url: string): void {
  for (const part of url.split(",")) {
    if (parseBaseUrl(part, { what: "engine of the request" }).secrets.length === 0) continue;
    throw new ConfigurationError(
      `Cannot use "${showAddress(part)}" as the engine of the request: it holds a secret, and requests are stored in the folder; start the service with --api-key-env or --engine-authorization-env.`,
    );
  }
}
