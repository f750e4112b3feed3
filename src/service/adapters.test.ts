// Switches of adapters in a service whose process dies between them: each group keeps the adapter
// with which it began, and every turn was sampled under the adapter that it records. The engine is
// vLLM's on a front whose sampler writes the name of the adapter into its tokens.

import { describe, expect, test } from "vitest";
import { createToolCalling } from "../agents/index.ts";
import { defaultSampling, type Episode } from "../core/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { createHandlerClient } from "../http/handler-client.test-helper.ts";
import { createRandom } from "../lib/random.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { type DispatchEpisode, episodeRunner } from "../rollout/index.ts";
import { createFunctionSampler, createVllmFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { agendaUser } from "../users/index.ts";
import { emptyDisk, type Life, live } from "./mortal-service.test-helper.ts";
import type { ServiceParts } from "./index.ts";

const isFull = process.env["FULL"] === "1";

const tokenizer = createReadableTokenizer();

/** A server with adapters, which outlives the processes of the service. */
function serverWithAdapters(options: { readonly ignoresNames?: boolean } = {}) {
  const sampler = createFunctionSampler(({ adapter, params }) => ({
    ids: [...tokenizer.encode(adapter?.path ?? "base"), ...params.stopTokenIds].slice(0, params.maxNewTokens),
  }));
  const front = createVllmFront({ sampler, adapters: { ...options, exists: (path) => path.startsWith("/") } });
  const http = createHandlerClient((asked) => front.handle(asked), { boundary: "engine" });
  const engine = createVllmEngine({ url: "http://server", endpoint: "generate", logprobsMode: "processed", http });
  const run = episodeRunner(
    {
      engine,
      environment: bookshopSource(),
      renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
      strategy: createToolCalling(),
      user: agendaUser(),
    },
    { limits: { maxTurns: 2, maxSampledTokens: null, maxContextTokens: null } },
  );
  const runner: DispatchEpisode = (task, { adapter, ...place }) =>
    run(task, adapter === undefined ? place : { ...place, sampling: { ...defaultSampling, adapter } });
  const adapters: ServiceParts["adapters"] = {
    own: null,
    use: async ({ name, path }) => {
      if (path !== null) await engine.loadAdapter({ name, path });
      await engine.checkAdapter(name);
    },
    unload: (name) => engine.unloadAdapter(name),
  };
  const loaded = async (): Promise<readonly string[]> => {
    const answer = await front.handle(new Request("http://server/v1/models"));
    const { data } = (await answer.json()) as { data: { id: string }[] };
    return data.slice(1).map(({ id }) => id);
  };
  return { parts: { runner: () => runner, adapters }, loaded };
}

/** The adapters of an episode: as recorded by its spans, and as its tokens say. */
function adaptersOf({ trajectory }: Episode): { readonly recorded: string; readonly sampled: string }[] {
  return trajectory.turns.flatMap(({ weightSpans, sampledTokens }) => {
    const sampled = tokenizer.decode(sampledTokens.subarray(0, -1)).replace(/^\//, "");
    return weightSpans.flatMap(({ dispatch, reply }) =>
      [dispatch, reply].map((name) => ({ recorded: name === "default" ? "base" : String(name), sampled })),
    );
  });
}

const report = ({ send }: Pick<Life, "send">, version: string, unload: readonly string[] = []): Promise<Response> =>
  send("/v1/weights", { version, adapter: { path: `/${version}`, unload } });

describe("switches of adapters", () => {
  test(
    "with kills between, no turn is of another adapter than it says, and no group mixes two",
    async () => {
      const switches = isFull ? 1000 : 12;
      const random = createRandom(37);
      const disk = emptyDisk();
      const { parts, loaded } = serverWithAdapters();
      let deaths = 0;
      const trainer = { reported: 0 };
      while (trainer.reported < switches) {
        let writes = 4 + Math.floor(random.next() * 40);
        const diesAt = () => (--writes === 0 ? (random.next() < 0.5 ? "before" : "after") : null);
        const life = await live(disk, { parts, diesAt });
        const train = async (): Promise<void> => {
          const producer = { samples: 2, batch_groups: 1, max_staleness: 1, training: "t" };
          const { id } = await life.sendJson<{ id: string }>("/v1/producers", producer, { "idempotency-key": "t" });
          let batch = [...disk.log].filter(({ type }) => type === "batch").length;
          while (trainer.reported < switches) {
            const index = Math.floor(random.next() * 8);
            void life.send(
              "/v1/groups",
              { task_index: index, samples: 2 },
              { "idempotency-key": `g${trainer.reported}` },
            );
            const [version, old] = [`v${trainer.reported + 1}`, `v${trainer.reported - 1}`];
            const owner = random.next() < 0.5 ? { training: "t" } : {};
            const unload = trainer.reported > 1 && random.next() < 0.5 ? [old] : [];
            const answer = await life.send("/v1/weights", {
              version,
              adapter: { path: `/${version}`, unload },
              ...owner,
            });
            // Some adapters are in use by the other training.
            if (answer.status !== 200) {
              const again = await life.send("/v1/weights", { version, adapter: { path: `/${version}` }, ...owner });
              expect(again.status).toBe(200);
            }
            trainer.reported++;
            if (random.next() < 0.3) {
              const wait = { wait_seconds: 60 };
              const { status } = await life.sendJson<{ status: string }>(`/v1/producers/${id}/batches/${batch}`, wait);
              if (status === "ready") batch++;
            }
          }
          await life.sendJson(`/v1/producers/${id}/cancel`, {});
          await life.service.close({ wait: true });
        };
        await Promise.race([train(), life.dead]);
        if (life.hasDied()) deaths++;
      }
      const last = await live(disk, { parts });
      await last.service.close({ wait: true });
      const episodes = [...disk.kept.values()];
      const groups = new Map<string, Set<string>>();
      for (const episode of episodes) {
        const turns = adaptersOf(episode);
        expect(turns.filter(({ recorded, sampled }) => recorded !== sampled)).toEqual([]);
        const names = groups.get(episode.groupId) ?? new Set();
        for (const { recorded } of turns) names.add(recorded);
        groups.set(episode.groupId, names);
      }
      expect([...groups.values()].filter(({ size }) => size > 1)).toEqual([]);
      expect(episodes.filter(({ outcome }) => outcome === "failed")).toEqual([]);
      const seen = new Set(episodes.flatMap(adaptersOf).map(({ recorded }) => recorded));
      expect(seen.size).toBeGreaterThan(switches / 4);
      expect(deaths).toBeGreaterThan(switches / 20);
      expect((await loaded()).length).toBeLessThan(switches);
    },
    isFull ? 3_600_000 : 60_000,
  );

  test("a group in flight keeps its adapter, which is unloaded when the group has ended", async () => {
    const { parts, loaded } = serverWithAdapters();
    const life = await live(emptyDisk(), { parts });
    expect((await report(life, "v1")).status).toBe(200);
    life.gate.close();
    const first = await life.sendJson<{ id: string }>("/v1/groups", { task_index: 0, samples: 2 });
    expect((await report(life, "v2", ["v1"])).status).toBe(200);
    expect(await loaded()).toEqual(["v1", "v2"]);
    life.gate.open();
    const versionsOf = async (id: string): Promise<unknown> => {
      const group = await life.sendJson<{ episodes: { weight_versions: unknown }[] }>(
        `/v1/groups/${id}?wait_seconds=60`,
      );
      return group.episodes.map(({ weight_versions: versions }) => versions);
    };
    expect(await versionsOf(first.id)).toEqual([["v1"], ["v1"]]);
    const second = await life.sendJson<{ id: string }>("/v1/groups", { task_index: 0, samples: 2 });
    expect(await versionsOf(second.id)).toEqual([["v2"], ["v2"]]);
    await life.service.close({ wait: true });
    expect(await loaded()).toEqual(["v2"]);
  });

  test("a producer counts staleness in adapters", async () => {
    const { parts } = serverWithAdapters();
    const life = await live(emptyDisk(), { parts });
    await report(life, "v1");
    const body = { samples: 2, batch_groups: 1, max_staleness: 1 };
    const { id } = await life.sendJson<{ id: string }>("/v1/producers", body);
    type Batch = {
      readonly groups: { readonly staleness: number; readonly episodes: { weight_versions: string[] }[] }[];
    };
    const take = (number: number) =>
      life.sendJson<Batch>(`/v1/producers/${id}/batches/${number}`, { wait_seconds: 60 });
    const stale = [];
    for (const [number, version] of ["v2", "v3", "v4"].entries()) {
      const { groups } = await take(number);
      for (const { staleness, episodes } of groups) {
        stale.push(staleness);
        const versions = new Set(episodes.flatMap(({ weight_versions: names }) => names));
        expect([...versions]).toEqual([`v${number + 1 - staleness}`]);
      }
      await report(life, version);
    }
    expect(stale).toHaveLength(3);
    expect(Math.max(...stale)).toBe(1);
    await life.sendJson(`/v1/producers/${id}/cancel`, {});
    await life.service.close({ wait: true });
  });

  test("refuses what would sample another policy, and stays with the adapter that it has", async () => {
    const { parts, loaded } = serverWithAdapters();
    const life = await live(emptyDisk(), { parts });
    const refused = async (body: object): Promise<readonly [number, string]> => {
      const answer = await life.send("/v1/weights", body);
      return [answer.status, ((await answer.json()) as { error: { message: string } }).error.message];
    };
    expect(await refused({ version: "x", adapter: {} })).toMatchObject([
      502,
      expect.stringContaining("load the adapter"),
    ]);
    expect((await refused({ version: "x", adapter: { path: "none" } }))[0]).toBe(502);
    expect((await report(life, "v1")).status).toBe(200);
    expect(await refused({ version: "7" })).toMatchObject([
      400,
      expect.stringContaining('groups begin under adapter "v1"'),
    ]);
    expect(await refused({ version: "v1", adapter: { unload: ["v1"] } })).toMatchObject([
      400,
      expect.stringContaining("v1"),
    ]);
    expect(await loaded()).toEqual(["v1"]);
    const { weight_version: version } = await life.sendJson<{ weight_version: string }>("/v1/info");
    expect(version).toBe("v1");
    await life.service.close({ wait: true });
    const plain = await live(emptyDisk());
    expect((await report(plain, "v1")).status).toBe(400);
    const ignoring = await live(emptyDisk(), { parts: serverWithAdapters({ ignoresNames: true }).parts });
    const answer = await ignoring.send("/v1/weights", { version: "v1", adapter: {} });
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(/same tokens and logprobs/);
  });
});
