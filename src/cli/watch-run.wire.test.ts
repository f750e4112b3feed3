import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";
import { watchRun } from "../api/watch-run.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "watch-"));
});
afterEach(() => rm(folder, { recursive: true }));

const parts = {
  runEpisode: () => Promise.reject(new Error("Nothing is played here.")),
  store: { append: async () => undefined, appendGroup: async () => undefined },
};

const labels = {
  run: { id: "r", name: "n", configuration: { env: "bookshop", seed: 0, data: null } },
  variables: {},
  policy: { model: null, provider: null, sampling: { temperature: 1, topP: 1, maxNewTokens: 9 } },
};

describe("watchRun()", () => {
  test("gives back what it got when nobody watches", async () => {
    const notes: string[] = [];
    const watch = await watchRun({ metrics: null, logJson: false }, parts, {
      folder,
      ...labels,
      onNotice: (text) => notes.push(text),
      log: () => undefined,
    });
    expect([watch.runEpisode, watch.store]).toEqual([parts.runEpisode, parts.store]);
    expect(notes).toEqual([]);
    await watch.close();
  });

  test.each(["prometheus:port", "wandb:x", "tensorboard:1", "", "prometheus:1:2"])("refuses %j", async (metrics) => {
    const options = {
      folder,
      onNotice: () => undefined,
      ...labels,
      log: () => undefined,
    };
    await expect(watchRun({ metrics, logJson: false }, parts, options)).rejects.toThrow(
      `Cannot watch the run: --metrics names "${metrics}", expected prometheus, prometheus:<port>, tensorboard, wandb, mlflow:<url>, trackio:<url>, traces or traces:messages`,
    );
  });

  test.each([
    ["mlflow:", "it is empty"],
    ["trackio:ftp://h", 'the scheme is "ftp"'],
    ["mlflow:http://me:secret@h:1", "--metrics-authorization-env"],
    ["trackio:http://h:0/?write_token=secret", "port 0"],
  ])("refuses %j without repeating it", async (metrics, reason) => {
    const options = { folder, ...labels, onNotice: () => undefined, log: () => undefined };
    const error: unknown = await watchRun({ metrics, logJson: false }, parts, options).catch(
      (thrown: unknown) => thrown,
    );
    expect(String(error)).toContain(reason);
    expect(String(error)).not.toContain("secret");
  });

  test("serves a page while the run goes on, and none afterwards", async () => {
    const notes: string[] = [];
    const options = {
      folder,
      onNotice: (text: string) => notes.push(text),
      ...labels,
      log: () => undefined,
    };
    const watch = await watchRun({ metrics: "prometheus:0", logJson: false }, parts, options);
    watch.progress(() => ({ episodesPlanned: 6, episodesStarted: 6, episodesFinished: 1, concurrency: 8 }));
    watch.circuit({ server: "http://one", state: "open", failures: 3 });
    const url = /http:\S+/.exec(notes.join("\n"))?.[0] ?? "";
    const page = await (await fetch(url)).text();
    expect(page).toContain("trainable_agents_episodes_running 5");
    expect(page).toContain("trainable_agents_circuits_open 1");
    await watch.close();
    await expect(fetch(url)).rejects.toThrow("fetch failed");
  });
});

test("a key in the address of a metric server is refused before it is written anywhere", async () => {
  const { run, folder: home } = await createTestCli();
  const address = "mlflow:http://me:secret@127.0.0.1:5000";
  const { code, stderr } = await run("rollout", "--metrics", address, "--out", "a");
  expect([code, existsSync(join(home, "a"))]).toEqual([2, false]);
  expect(stderr).toContain("--metrics-authorization-env");
  expect(stderr).not.toContain("secret");
});

test("rollout --metrics tensorboard,traces --log-json leaves event files and prints lines for machines", async () => {
  const { run, folder: home } = await createTestCli();
  const flags = ["--tasks", "0-1", "--quiet", "--out", "r", "--metrics", "tensorboard, traces", "--log-json"];
  const { code, stderr } = await run("rollout", ...flags);
  expect(code).toBe(0);
  const lines = stderr.split("\n").filter((line) => line.startsWith("{"));
  const events = lines.map((line) => JSON.parse(line) as { readonly event: string; readonly outcome?: string });
  expect(events.filter(({ event }) => event === "episode-end").map(({ outcome }) => outcome)).toEqual([
    "completed",
    "completed",
  ]);
  expect(events.filter(({ event }) => event === "group")).toHaveLength(2);
  expect(await readdir(join(home, "r", "tensorboard"))).toEqual([expect.stringMatching(/^events\.out\.tfevents\./)]);
});
