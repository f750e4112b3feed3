// A service for the bookshop, run by its expert in this process: everything is real except the
// model.

import { createToolCalling } from "../agents/index.ts";
import type { Engine, Episode, GroupRecord } from "../core/index.ts";
import { bookshopSource, createExpertEngine } from "../environments/bookshop/index.ts";
import { exportFormats, exportGroup } from "../export/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { episodeRunner } from "../rollout/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { agendaUser } from "../users/index.ts";
import {
  createRolloutService,
  gatedEngine,
  memoryRequestLog,
  type RequestLog,
  type RolloutService,
  type RolloutServiceOptions,
  type ServiceParts,
  TurnGate,
} from "./index.ts";

export type TestService = {
  readonly service: RolloutService;
  /** Episodes that were passed to the store. */
  readonly kept: Map<string, Episode>;
  readonly groups: Map<string, readonly string[]>;
  /** Decisions on groups, in order. */
  readonly records: Map<string, GroupRecord>;
  readonly gate: TurnGate;
  /** Weight version that the engine reports. */
  readonly weights: { version: string };
  /** Number of engine calls. */
  readonly calls: () => number;
  /** Sends a request, with a JSON body if one is given. */
  readonly send: (path: string, body?: unknown, headers?: Readonly<Record<string, string>>) => Promise<Response>;
  readonly sendJson: <T = Record<string, unknown>>(
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<T>;
};

export type TestServiceOptions = RolloutServiceOptions & {
  readonly requests?: RequestLog;
  readonly kept?: Map<string, Episode>;
  readonly groups?: Map<string, readonly string[]>;
  readonly records?: Map<string, GroupRecord>;
  readonly weights?: { version: string };
  /** Replacements for parts of the helper. */
  readonly parts?: Partial<ServiceParts>;
};

export function createTestService(options: TestServiceOptions = {}): TestService {
  const tokenizer = createReadableTokenizer();
  const { weights = { version: "3" } } = options;
  const engines = new Map<string, Engine>();
  const expert = (): Engine => {
    const { version } = weights;
    const engine =
      engines.get(version) ?? createExpertEngine({ tokenizer, noise: 0.1, seed: 1, weightVersion: version });
    engines.set(version, engine);
    return engine;
  };
  const gate = new TurnGate();
  const { kept = new Map<string, Episode>(), groups = new Map<string, readonly string[]>() } = options;
  const { records = new Map<string, GroupRecord>() } = options;
  let calls = 0;
  const engine: Engine = {
    ...expert(),
    sample(request) {
      calls++;
      return expert().sample(request);
    },
  };
  const environment = bookshopSource();
  const runner = episodeRunner(
    {
      engine: gatedEngine(engine, gate),
      environment,
      renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
      strategy: createToolCalling(),
      user: agendaUser(),
    },
    { seedTurns: true },
  );
  const service = createRolloutService(
    {
      environment,
      defaultSplit: "train",
      runner: () => runner,
      store: {
        append: async (episode) => void kept.set(episode.id, episode),
        appendGroup: async ({ group, sampleLines }) => {
          groups.set(group.groupId, sampleLines);
          records.set(group.groupId, group);
        },
      },
      archive: { find: async (id) => kept.get(id) ?? null },
      requests: options.requests ?? memoryRequestLog(),
      gate,
      writeSamples: true,
      formats: new Map([
        [
          "slime",
          (ended, groupIndex) =>
            exportGroup(
              {
                run: null,
                groupIndex,
                decision: "kept",
                reason: null,
                episodes: ended.map((one, index) => ({ ...one, index })),
              },
              exportFormats.slime,
              { decode: (ids) => tokenizer.decode(ids), toolsOf: () => null, where: () => true },
            ).rows,
        ],
      ]),
      seed: 7,
      metrics: null,
      ...options.parts,
    },
    options,
  );
  const send: TestService["send"] = (path, body, headers = {}) =>
    service.handle(
      new Request(`http://service${path}`, {
        ...(body === undefined ? {} : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) }),
        headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      }),
    );
  return {
    service,
    kept,
    groups,
    records,
    gate,
    weights,
    calls: () => calls,
    send,
    sendJson: async <T>(...request: Parameters<TestService["send"]>) => (await (await send(...request)).json()) as T,
  };
}
