// A connected engine of a rollout, and the parts it is connected with.

import type { Engine, EngineActivitySource, EngineLoadSource, EpisodeHolder } from "../core/index.ts";
import type { CircuitStatus } from "../engines/guarded/index.ts";
import type { ChosenModel } from "./choose-model.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { Access } from "./secrets.ts";

/** "own": an engine that a program gives as a value. */
export type EngineName = NonNullable<RolloutSettings["engine"]>;

export type ConnectedEngine = {
  readonly engine: Engine & Partial<EngineLoadSource & EpisodeHolder & EngineActivitySource>;
  /** Address of the engine, safe to show. */
  readonly address: string;
  readonly weightVersion: string | null;
  close(): Promise<void>;
};

/** Address, access and timeouts for the calls to one server. */
export type ServerOptions = Access & {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | null;
  readonly connections: number;
} & Pick<RolloutSettings, "logprobsMode" | "endpoint">;

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

export function here(engine: Engine): ConnectedEngine {
  return { engine, address: "this process", weightVersion: null, close: () => engine.close() };
}
