// `serve` from a trainer's side: requests over a socket, rows as answers, and a folder that a
// restarted service continues.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli, runServer } from "./cli.test-helper.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";

let out = "";
beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), "serve-"));
});
afterEach(() => rm(out, { recursive: true }));

const argv = (...flags: readonly string[]): readonly string[] => [
  "serve",
  "--listen",
  "127.0.0.1:0",
  "--out",
  out,
  ...flags,
];

type Group = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly { readonly outcome: string }[];
};

async function ask<T>(url: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<T> {
  const answer = await fetch(url, {
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json", ...headers },
  });
  return (await answer.json()) as T;
}

const asked = { task_index: 2, samples: 3, wait_seconds: 60 };

describe("serve", () => {
  test("plays what requests ask for, gives rows of every format and counts", async () => {
    await runServer(
      async (url) => {
        const group = await ask<Group>(`${url}/v1/groups`, { ...asked, sampling_params: { temperature: 0.5 } });
        expect(group).toMatchObject({ status: "ended" });
        const { formats } = await ask<{ readonly formats: readonly string[] }>(`${url}/v1/info`);
        expect(formats[0]).toBe("slime");
        for (const format of formats) {
          const { samples } = await ask<{ readonly samples: readonly unknown[] }>(
            `${url}/v1/groups/${group.id}/samples?format=${format}`,
          );
          if (format !== "preferences") expect(samples.length).toBeGreaterThan(0);
        }
        const page = await (await fetch(`${url}/metrics`)).text();
        expect(page).toContain("trainable_agents_episodes_started_total 3");
        expect(page).toContain('trainable_agents_groups_total{decision="kept"} 1');
        expect(page).toContain("trainable_agents_concurrency_limit 64");
      },
      { argv: argv() },
    );
    const { run } = await createTestCli();
    expect(await run("inspect", out)).toMatchObject({ code: 0 });
    expect(JSON.parse(await readFile(join(out, "run.json"), "utf8"))).toMatchObject({ status: "interrupted" });
  });

  test("a service that was stopped in the middle answers the same key with the same episodes", async () => {
    const key = { "idempotency-key": "step 7" };
    let before: Group | null = null;
    await runServer(
      async (url) => {
        before = await ask<Group>(`${url}/v1/groups`, asked, key);
        await ask(`${url}/v1/pause`, {});
        await ask(`${url}/v1/groups`, { ...asked, wait_seconds: 0 }, { "idempotency-key": "cut off" });
      },
      { argv: argv(), ending: "cancel" },
    );
    const { stderr } = await runServer(
      async (url) => {
        expect(await ask(`${url}/v1/groups`, asked, key)).toEqual(before);
        const { id } = await ask<Group>(
          `${url}/v1/groups`,
          { ...asked, wait_seconds: 0 },
          { "idempotency-key": "cut off" },
        );
        const rest = await ask<Group>(`${url}/v1/groups/${id}?wait_seconds=60`);
        expect(rest.episodes.map(({ outcome }) => outcome)).toEqual(["completed", "completed", "completed"]);
      },
      { argv: argv() },
    );
    expect(stderr).toContain("Resuming: 3 episodes have ended");
  });

  test("requests name the engine, as slime hands over its router", async () => {
    const tokenizer = createReadableTokenizer();
    const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;
    const sampler = createExpertSampler({ tokenizer, noise: 0 });
    const router = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
    await runServer(
      async (url) => {
        const engine = { router_ip: "127.0.0.1", router_port: router.port };
        for (const version of ["default", "next"]) {
          await ask(`${url}/v1/weights`, { version });
          expect(await ask(`${url}/v1/groups`, { ...asked, engine })).toMatchObject({ status: "ended" });
        }
        // The router did not accept the second version, so the second group was run with weights
        // that are one version older.
        const page = await (await fetch(`${url}/metrics`)).text();
        expect(page).toContain('trainable_agents_staleness_versions_bucket{le="0"} 3');
        expect(page).toContain('trainable_agents_staleness_versions_bucket{le="1"} 6');
        const nowhere = await ask<unknown>(`${url}/v1/episodes`, {
          task_index: 0,
          wait_seconds: 60,
          engine: { url: "http://127.0.0.1:9" },
        });
        const at = (engineUrl: string) => ask(`${url}/v1/episodes`, { task_index: 0, engine: { url: engineUrl } });
        expect(await at("http://me:sesame@127.0.0.1:9")).toMatchObject({
          error: { code: "bad-request", message: expect.not.stringContaining("sesame") as unknown },
        });
        expect(await at("nowhere")).toMatchObject({ error: { code: "bad-request" } });
        expect(nowhere).toMatchObject({
          outcome: "failed",
          failure: { message: expect.stringContaining("127.0.0.1:9") as unknown },
        });
      },
      { argv: argv("--engine", "sglang", "--model", "readable") },
    );
    await router.close();
  });

  test("it says that it waits for a server which takes no requests yet", async () => {
    const loading = createServer((incoming, response) => {
      incoming.resume();
      response.writeHead(503).end();
    });
    await new Promise<void>((resolve) => loading.listen(0, "127.0.0.1", resolve));
    const at = `http://127.0.0.1:${(loading.address() as AddressInfo).port}`;
    const { stderr } = await runServer(
      async (url) => {
        const failed = await ask(`${url}/v1/episodes`, { task_index: 0, wait_seconds: 60 });
        expect(failed).toMatchObject({ outcome: "failed" });
      },
      { argv: argv("--engine", "sglang", "--model", "readable", "--url", at, "--engine-wait", "2") },
    );
    loading.closeAllConnections();
    loading.close();
    expect(stderr).toContain(`The server at ${at} takes no requests yet; waiting 2 seconds at most.`);
  });

  test("who waits for a batch when the service is stopped is told so", async () => {
    let waiting = Promise.resolve(new Response());
    await runServer(
      async (url) => {
        const wanted = { samples: 2, batch_groups: 1, max_staleness: 0 };
        const { id } = await ask<{ readonly id: string }>(`${url}/v1/producers`, wanted);
        const batch = (number: number): string => `${url}/v1/producers/${id}/batches/${number}`;
        expect(await ask(batch(0), { wait_seconds: 60 })).toMatchObject({ status: "ready" });
        const headers = { "content-type": "application/json" };
        // No weights are reported, so no batch becomes ready.
        waiting = fetch(batch(1), { method: "POST", headers, body: '{"wait_seconds": 60}' });
        await ask(`${url}/v1/info`);
      },
      { argv: argv() },
    );
    const answer = await waiting;
    expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: "closing" } }]);
  });

  test("a folder whose requests cannot be read is told, and left free", async () => {
    await runServer(async () => undefined, { argv: argv() });
    await writeFile(join(out, "requests.jsonl"), "nothing of ours\n");
    const { run } = await createTestCli();
    for (let again = 0; again < 2; again++) {
      const { code, stderr } = await run(...argv());
      expect([code, stderr]).toEqual([1, expect.stringContaining("line 1 is not a request of this service")]);
    }
  });

  test.each([
    [["--listen", "8800"], 'Cannot use --listen "8800"'],
    [["--listen", "0.0.0.0:0"], "without a token"],
    [["--token-env", "NO_TOKEN"], 'environment variable "NO_TOKEN" is not set'],
    [["--max-waiting", "-1"], 'Cannot use --max-waiting: it is "-1", expected a whole number from 1 to 10000000.'],
    [["--tasks", "0-3"], "--tasks"],
  ])("says what is wrong with %j", async (flags, message) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run(...argv(...flags));
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
