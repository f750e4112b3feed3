import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { openForeignFile } from "../foreign/index.ts";
import type { EpisodeStore } from "./episode-store.ts";
import { openForeignStore } from "./foreign-store.ts";
import { RunView } from "./run-view.ts";
import { decodeEpisode, expectedActions, notRecorded, type ShownEpisode, type StoredEpisode } from "./wire/index.ts";

const folder = await mkdtemp(join(tmpdir(), "trainable-agents-foreign-store-"));

async function storeOf(name: string, content: string): Promise<EpisodeStore> {
  const path = join(folder, name);
  await writeFile(path, content);
  return openForeignStore(path, (await openForeignFile(path, name))!);
}

async function episodeAt(store: EpisodeStore, place: number): Promise<ShownEpisode> {
  return decodeEpisode(JSON.parse((await store.line(place)).toString()) as StoredEpisode);
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

const file = { kind: "file" } as const;
const slimeRow = { index: 1, prompt: "Hi", response: " yo", tokens: [5, 6, 7, 8], response_length: 3, reward: 1 };
const sampled = { loss_mask: [1, 0, 1], rollout_log_probs: [-0.5, 0, -0.25], status: "completed" };
const lines = (...rows: object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

describe("openForeignStore()", () => {
  it("shows what a mask keeps as sampled, and names what a row does not record", async () => {
    const store = await storeOf("slime.jsonl", lines({ ...slimeRow, ...sampled }, { ...slimeRow, index: 2 }));
    const first = await episodeAt(store, 0);
    const turns = first.trajectory.turns.map((turn) => [[...turn.observationTokens], [...turn.sampledTokens]]);
    expect(turns).toEqual([[[5], [6]], [[7], [8]]]); // prettier-ignore
    expect(first.trajectory.turns.map(({ logprobs }) => [...logprobs!])).toEqual([[-0.5], [-0.25]]);
    expect(notRecorded(first, file)).toEqual(["tool calls as such", "weight versions", "duration", "cost"]);
    expect(notRecorded(first, { kind: "run" })).toBeNull();
    const second = await episodeAt(store, 1);
    expect(notRecorded(second, file)).toEqual(expect.arrayContaining(["loss mask", "logprobs", "stop reason"]));
    expect(second.trajectory.turns.flatMap(({ sampledTokens }) => [...sampledTokens])).toEqual([]);
    // Unknown values stay unknown and never become zero.
    expect(await store.rows(1, 2)).toMatchObject([{ sampledTokens: null, tokens: 4, turns: null, durationMs: null }]);
  });

  it("has the expected actions and the instruction of τ-bench, and no reward of what broke", async () => {
    const actions = [{ name: "cancel", kwargs: { id: "#W1" } }];
    const task = { user_id: "u", instruction: "Cancel it.", actions, outputs: [] };
    const traj = [{ role: "user", content: "Cancel “it”, please." }];
    const run = { task_id: 0, trial: 0, reward: 0, info: { task, reward_info: { actions } }, traj };
    const broken = { task_id: 1, trial: 0, reward: 0, info: { error: "boom" }, traj: [] };
    const store = await storeOf("tau.json", JSON.stringify([run, broken]));
    const first = await episodeAt(store, 0);
    expect(expectedActions(first)).toEqual([{ name: "cancel", arguments: { id: "#W1" } }]);
    expect(first.task.instruction).toBe("Cancel it.");
    expect(await store.rows(1, 2)).toMatchObject([{ reward: null, outcome: "failed", tokens: null, turns: null }]);
    const view = new RunView(store, "0");
    await view.readAll();
    expect((await view.summary()).masks).toMatchObject({ withoutTokens: 2, wrong: [], isDone: true });
    const hits = await all(store.search("“it”"));
    expect(hits).toMatchObject([{ number: 1, before: "Cancel ", match: "“it”" }]);
    expect(await all(store.filter("reward < 1"))).toEqual([0]);
  });

  it("reads a log that inspect packed as it reads the log that it was", async () => {
    const path = fileURLToPath(new URL("../../tests/goldens/foreign/bookshop.eval", import.meta.url));
    const store = await openForeignStore(path, (await openForeignFile(path, "bookshop.eval"))!);
    expect(store.facts).toMatchObject({ kind: "file", environment: "inspect", hasEpisodes: true });
    const rows = await store.rows(0, 9);
    expect(rows.map(({ reward, contentHash }) => typeof reward === "number" && /^\w{64}$/.test(contentHash ?? ""))).toEqual([true, true, true, true]); // prettier-ignore
    const { messages } = await episodeAt(store, 0);
    expect(messages.map(({ role }) => role)).toEqual(expect.arrayContaining(["system", "user", "assistant", "tool"]));
  });
});
