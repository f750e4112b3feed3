import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { ConfigurationError } from "../../core/failure.ts";
import { createRandom } from "../../lib/random.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { loadTauBench, TauEpisode, tauBenchSource } from "./index.ts";

const folder = sharedFolder("tau-bench");
const completed = { outcome: "completed" } as const;

describe.skipIf(folder === null)("tauBenchSource() (skipped without ../shared/tau-bench)", async () => {
  const folders: string[] = [];
  afterAll(() => Promise.all(folders.map((copy) => rm(copy, { recursive: true }))));
  const source = folder === null ? null! : await tauBenchSource({ domain: "retail", folder });

  const copyOfRetail = async (): Promise<string> => {
    const copy = await mkdtemp(join(tmpdir(), "tau-bench-"));
    folders.push(copy);
    await cp(join(folder!, "retail"), join(copy, "retail"), { recursive: true });
    return copy;
  };

  test("offers the tasks of the reference by stable ids", () => {
    expect(source.splits.map((split) => source.taskset(split).size)).toEqual([500, 115, 20]);
    const task = source.taskset("test").task(17);
    expect(task).toMatchObject({ id: "tau-bench/retail:test:17", split: "test", index: 17, agenda: null });
    expect(task.contentHash).toMatch(/^[0-9a-f]{64}$/);
    expect(() => source.taskset("test").task(115)).toThrow(RangeError);
    expect(() => source.taskset("other")).toThrow(ConfigurationError);
    expect(() => source.open({ ...task, contentHash: "0" })).toThrow(/made from different data/);
  });

  test("reads a folder once, and refuses an unknown domain", async () => {
    const options = { domain: "retail", folder: folder! };
    expect(await loadTauBench(options)).toBe(await loadTauBench({ ...options, folder: join(folder!, ".") }));
    await expect(tauBenchSource({ ...options, domain: "hotel" })).rejects.toThrow(/use one of retail/);
  });

  test("says in the log which records are wrong and what was never said", async () => {
    const data = await loadTauBench({ domain: "retail", folder: folder! });
    const { task } = data.tasks.get("test")!.find(({ outputs, actions }) => outputs.length > 0 && actions.length > 0)!;
    const environment = source.open(task);
    await environment.call({
      name: "modify_user_address",
      arguments: parseJson(
        '{"user_id": "yusuf_rossi_9620", "address1": 1, "address2": 2, "city": 3, "state": 4, "country": 5, "zip": 6}',
      ) as JsonObject,
    });
    const grade = await environment.grade(completed);
    expect(grade).toMatchObject({ reward: 0, metrics: { database_right: 0, outputs_said: 0 } });
    expect(grade.log).toMatch(/Not as the task expects them: .*users yusuf_rossi_9620.* Never said: "/);
  });

  test("what a caller does to its arguments later does not reach the world", async () => {
    const environment = source.open(source.taskset("test").task(0));
    const city: JsonValue[] = ["a"];
    const args = parseJson(
      '{"user_id": "yusuf_rossi_9620", "address1": 1, "address2": 2, "state": 4, "country": 5, "zip": 6}',
    );
    await environment.call({ name: "modify_user_address", arguments: (args as JsonObject).set("city", city) });
    const digest = environment.digest();
    city.push("b");
    expect(environment.digest()).toBe(digest);
  });

  test.each([
    ["orders.json", "{", /orders\.json.*it is not JSON \(Expecting property name/],
    ["orders.json", "[".repeat(100_000), /orders\.json.*maximum recursion depth/],
    ["orders.json", "[]", /orders\.json.*orders is not an object/],
    ["orders.json", '{"#W1": {"user_id": 5}}', /orders\.json.*orders\.#W1\.user_id is not a text/],
    ["users.json", "{}", /orders\.json.*belongs to user ".*", who does not exist/],
    ["tasks_test.json", '[{"instruction": "x"}]', /tasks_test\.json.*test\[0\]\.user_id is missing/],
    ["tools.json", '[{"function": {}}]', /tools\.json.*tools\[0\]\.function\.name is missing/],
  ])("names a broken %s", async (file, text, message) => {
    const copy = await copyOfRetail();
    await writeFile(join(copy, "retail", file), text);
    const loading = tauBenchSource({ domain: "retail", folder: copy });
    await expect(loading).rejects.toBeInstanceOf(ConfigurationError);
    await expect(loading).rejects.toThrow(message);
  });

  test("names a missing file, and reads the folder again once it is mended", async () => {
    const copy = await copyOfRetail();
    await rm(join(copy, "retail", "wiki.md"));
    const options = { domain: "retail", folder: copy };
    await expect(tauBenchSource(options)).rejects.toThrow(
      /wiki\.md" for tau-bench retail: it does not exist; name a checkout/,
    );
    await writeFile(join(copy, "retail", "wiki.md"), "Be kind.");
    const mended = await tauBenchSource(options);
    const task = mended.taskset("test").task(0);
    expect(mended.open(task).guidelines).toBe("Be kind.");
    expect(task.contentHash).not.toBe(source.taskset("test").task(0).contentHash);
  });
});

describe.skipIf(folder === null)("TauEpisode (skipped without ../shared/tau-bench)", async () => {
  const data = folder === null ? null! : await loadTauBench({ domain: "retail", folder });
  const user = { open: (text: string) => Promise.resolve(text), reply: () => Promise.resolve(null), cost: () => 0.5 };
  const episode = (): TauEpisode => new TauEpisode(data, { split: "test", user, random: createRandom(1) });

  test("takes a negative index from the end and refuses one out of range with Python's IndexError", async () => {
    const last = await episode().reset(-1);
    expect(last.observation).toBe(data.tasks.get("test")!.at(-1)!.task.instruction);
    for (const index of [115, -116]) {
      await expect(episode().reset(index)).rejects.toMatchObject({
        pythonType: "IndexError",
        message: "list index out of range",
      });
    }
  });

  test("draws a task when none is given, the one past the end included", async () => {
    const drawn = new TauEpisode(data, {
      split: "dev",
      user,
      random: { ...createRandom(1), integer: (bound) => bound - 1 },
    });
    await expect(drawn.reset(null)).rejects.toMatchObject({ pythonType: "IndexError" });
    expect((await episode().reset(null)).info.get("source")).toBe("user");
  });

  test("a customer without text is a TypeError, after the words were recorded", async () => {
    const played = episode();
    await played.reset(0);
    const speech = { name: "respond", kwargs: new Map([["content", "Hello?"]]) };
    await expect(played.step(speech)).rejects.toMatchObject({ pythonType: "TypeError" });
    expect(played.actions).toEqual([speech]);
  });

  test("reports the customer's cost and the whole reward_info only when done", async () => {
    const played = episode();
    await played.reset(1);
    const step = await played.step({ name: "transfer_to_human_agents", kwargs: new Map() });
    expect(step).toMatchObject({ done: true, reward: 0 });
    expect(step.observation).toMatch(/^Error: TransferToHumanAgents\.invoke\(\) missing 1 required/);
    expect(step.info.get("user_cost")).toEqual(new JsonFloat(0.5));
    expect([...(step.info.get("reward_info") as JsonObject).keys()]).toEqual(["reward", "info", "actions"]);
  });

  test("refuses a split the domain does not have as the reference does", () => {
    expect(() => new TauEpisode(data, { split: "x", user })).toThrow("Unknown task split: x");
  });
});
