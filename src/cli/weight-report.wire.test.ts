// A trainer that loads new weights into the servers and then reports them to `serve`: later
// episodes do not count as stale by mistake, with or without a router in between.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { createRouterFront, createSglangFront, createVllmFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { runServer } from "./cli.test-helper.ts";

let out = "";
beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), "weights-"));
});
afterEach(() => rm(out, { recursive: true }));

async function ask<T>(url: string, body?: unknown): Promise<T> {
  const answer = await fetch(url, {
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json" },
  });
  return (await answer.json()) as T;
}

type Batch = {
  readonly status: string;
  readonly groups: readonly { readonly staleness: number }[];
  readonly producer: { readonly dropped: object };
};

/** Waits until the running episodes have ended: a trainer takes longer than they do. */
async function idle(producer: string): Promise<void> {
  while ((await ask<{ readonly running_episodes: number }>(producer)).running_episodes > 0) await rest(20);
}

type Servers = {
  readonly engine: string;
  readonly url: string;
  /** Loads the weights of a step. */
  load(step: number): Promise<void>;
  close(): Promise<void>;
};

const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;
const front = { sampler: createExpertSampler({ tokenizer, noise: 0.1 }), tokenizer, endTokenIds: [endTokenId] };

async function sglangServers(
  count: number,
  options: { readonly hasRouter?: boolean; readonly version?: "0.5.9" | "0.5.23" } = {},
): Promise<Servers> {
  const { hasRouter = false, version = "0.5.9" } = options;
  const fronts = Array.from({ length: count }, () => createSglangFront({ ...front, weightVersion: "step-0", version }));
  const workers = await Promise.all(
    fronts.map(async (one) => ({ ...(await one.listen()), handle: (call: Request) => one.handle(call) })),
  );
  const router = hasRouter ? await createRouterFront({ workers }).listen() : null;
  return {
    engine: "sglang",
    url: router?.url ?? workers.map(({ url }) => url).join(","),
    load: async (step) => {
      const body = { new_version: `step-${step}`, abort_all_requests: false };
      for (const { url } of workers) await ask(`${url}/update_weight_version`, body);
    },
    close: async () => {
      for (const listener of [router, ...workers]) await listener?.close();
    },
  };
}

async function vllmServer(): Promise<Servers> {
  const listener = await createVllmFront({ ...front, weightVersion: "step-0" }).listen();
  return {
    engine: "vllm",
    url: listener.url,
    load: (step) => ask<void>(`${listener.url}/update_weight_version`, { new_version: `step-${step}` }),
    close: () => listener.close(),
  };
}

const topologies: readonly [string, () => Promise<Servers>][] = [
  ["one SGLang server", () => sglangServers(1)],
  ["two SGLang servers", () => sglangServers(2)],
  ["a router before two SGLang servers", () => sglangServers(2, { hasRouter: true })],
  ["one SGLang server that names the version of every token", () => sglangServers(1, { version: "0.5.23" })],
  ["a vLLM server", vllmServer],
];

describe.each(topologies)("%s", (_, open) => {
  test.each([0, 1, 4])("nothing is dropped as stale at max_staleness %i that is not", async (maxStaleness) => {
    const servers = await open();
    const flags = ["--engine", servers.engine, "--url", servers.url, "--model", "readable", "--concurrency", "16"];
    await runServer(
      async (url) => {
        const wanted = { samples: 2, batch_groups: 2, max_staleness: maxStaleness, weight_version: "step-0" };
        const { id } = await ask<{ readonly id: string }>(`${url}/v1/producers`, wanted);
        for (let step = 0; step < maxStaleness + 3; step++) {
          const batch = await ask<Batch>(`${url}/v1/producers/${id}/batches/${step}`, { wait_seconds: 60 });
          expect([batch.status, batch.producer.dropped]).toEqual(["ready", {}]);
          // These groups began first, as early as staleness allows.
          const oldest = Math.min(step, maxStaleness);
          expect(batch.groups.map(({ staleness }) => staleness)).toEqual([oldest, oldest]);
          await idle(`${url}/v1/producers/${id}`);
          await servers.load(step + 1);
          await ask(`${url}/v1/weights`, { version: `step-${step + 1}` });
        }
      },
      { argv: ["serve", "--listen", "127.0.0.1:0", "--out", out, ...flags] },
    );
    await servers.close();
  });
});

type Report = { readonly servers: readonly (string | null)[]; readonly warning: string | null };

describe("a version that the servers do not have is answered with what they have", () => {
  test.each([
    ["one SGLang server", () => sglangServers(1), ["step-0"]],
    ["two SGLang servers", () => sglangServers(2), ["step-0", "step-0"]],
    ["a router before two SGLang servers", () => sglangServers(2, { hasRouter: true }), ["step-0", "step-0"]],
    ["a vLLM server", vllmServer, ["step-0"]],
  ] as const)("%s", async (_, open, expected) => {
    const servers = await open();
    const argv = ["serve", "--port", "0", "--out", out, "--engine", servers.engine, "--url", servers.url, "--model", "readable"]; // prettier-ignore
    const { stderr } = await runServer(
      async (url) => {
        const unknown = await ask<Report>(`${url}/v1/weights`, { version: "step-9" });
        expect(unknown.servers).toEqual(expected);
        expect(unknown.warning).toMatch(/^No server has weights "step-9": they have "step-0"; load /);
        await servers.load(1);
        const known = await ask<Report>(`${url}/v1/weights`, { version: "step-1" });
        expect(known).toEqual({
          weight_version: "step-1",
          servers: expected.map(() => "step-1"),
          warning: null,
        });
      },
      { argv },
    );
    expect(stderr).toContain('No server has weights "step-9"');
    await servers.close();
  });

  test("the scripted expert, and an embedded model, before and after an episode", async () => {
    for (const [flags, version] of [
      [["--engine", "expert"], "default"],
      [["--engine", "embedded", "--model", "bookshop-nano", "--max-turns", "1"], null],
    ] as const) {
      await runServer(
        async (url) => {
          for (const isFirst of [true, false]) {
            const { servers, warning } = await ask<Report>(`${url}/v1/weights`, { version: 7 });
            expect(servers).toEqual([version]);
            expect(warning === null).toBe(version === null);
            if (isFirst) await ask(`${url}/v1/episodes`, { task_index: 0, wait_seconds: 60 });
          }
        },
        { argv: ["serve", "--port", "0", "--out", join(out, flags[1]), ...flags] },
      );
    }
  });
});
