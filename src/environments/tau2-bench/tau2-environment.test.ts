import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import type { Environment, UserLine } from "../../core/index.ts";
import { freeUsage } from "../../core/index.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { environmentViolations } from "../../testing/index.ts";
import { readVerdicts } from "./evaluate.ts";
import { type DomainData, loadTau2Data, type Tau2Task, tau2Source } from "./index.ts";

const folder = sharedFolder("tau2-bench");
const load = (domain: string): Promise<DomainData> => loadTau2Data({ domain, folder: folder! });
const completed = { outcome: "completed" } as const;

const words = (text: string): UserLine => ({ type: "utterance", text, usage: freeUsage });
const hangUp: UserLine = { type: "hang-up", text: "Thanks. ###STOP###", usage: freeUsage };
const calls = (name: string, given: JsonObject): UserLine => ({
  type: "calls",
  text: "",
  usage: freeUsage,
  calls: [{ id: "u", name, arguments: given }],
});

/** Carries out the reference solution, each side its own part, and says the required texts. */
async function solve(environment: Environment, { criteria }: Tau2Task): Promise<void> {
  const side = environment.userSide!;
  await side.act(words("Hello, I need help."));
  for (const { requestor, name, arguments: given } of criteria?.actions ?? []) {
    if (requestor === "assistant") await environment.call({ name, arguments: given });
    else {
      await environment.receiveUtterance("Please do it.");
      expect((await side.act(calls(name, given))).results.length).toBe(1);
      await side.act(words("Done."));
    }
  }
  await environment.receiveUtterance(`All done. ${(criteria?.communicated ?? []).join(" ")}`);
  expect(await side.act(hangUp)).toEqual({ results: [], endsEpisode: true });
}

/** An answer with one verdict for all assertions. */
const verdicts = (metExpectation: unknown): string =>
  JSON.stringify({ results: [{ expectedOutcome: "all of it", reasoning: "so it is", metExpectation }] });
const judged = (answer: string) => ({ answer, signal: new AbortController().signal });

describe.skipIf(folder === null)("tau2Source() (skipped without ../shared/tau2-bench)", () => {
  test.each(["retail", "airline", "telecom", "banking_knowledge"])(
    "%s keeps the contract, and earns 1 for every reference solution",
    async (domain) => {
      const data = await load(domain);
      const source = await tau2Source(data);
      const tasks = await data.tasks("base");
      for (const [index, task] of tasks.entries()) {
        const environment = source.open(source.taskset("base").task(index));
        await solve(environment, task);
        const question = await environment.question!(completed);
        const answer = judged(verdicts(true));
        const { reward, log } = await environment.grade(completed, answer);
        expect(reward, task.id).toBe(1);
        if (question === null) expect(log, task.id).toBe("");
        // Grading again gives the same reward, because it changes nothing.
        expect((await environment.grade(completed, answer)).reward).toBe(1);
      }
      expect(await environmentViolations(source)).toEqual([]);
    },
  );

  test("what the user does is seen by the agent's world, and the other way round", async () => {
    const data = await load("telecom");
    const source = await tau2Source(data);
    const tasks = await data.tasks("base");
    const index = tasks.findIndex(({ id }) => id.includes("airplane_mode_on"));
    const environment = source.open(source.taskset("base").task(index));
    const side = environment.userSide!;
    expect(side.tools.map(({ name }) => name)).toContain("toggle_airplane_mode");
    expect(side.history).toEqual([{ role: "user", content: "Hi! How can I help you today?" }]);
    expect(environment.history).toEqual([expect.objectContaining({ role: "assistant" })]);
    const before = await side.act(calls("check_status_bar", new Map()));
    expect(before.results[0]!.text).toContain("Airplane Mode");
    await side.act(calls("toggle_airplane_mode", new Map()));
    const after = await side.act(calls("check_status_bar", new Map()));
    expect(after.results[0]!.text).not.toContain("Airplane Mode");
    const bad = await side.act(calls("get_customer_by_id", new Map()));
    expect(bad.results).toEqual([
      expect.objectContaining({ isError: true, text: "Error: Tool 'get_customer_by_id' not found." }),
    ]);
  });

  test("several calls of a turn are one message, an error limit ends it, and a limit is not graded", async () => {
    const data = await load("mock");
    const source = await tau2Source(data, { maxErrors: 2 });
    const environment = source.open(source.taskset("base").task(0));
    await environment.userSide!.act(words("Create it."));
    const call = { name: "fly", arguments: new Map<string, JsonValue>() };
    const options = (index: number) => ({
      signal: new AbortController().signal,
      action: { call: index, calls: 2, text: "x" },
    });
    expect(await environment.call(call, options(0))).toMatchObject({ isError: true, endsEpisode: false });
    expect(await environment.call(call, options(1))).toMatchObject({ isError: true, endsEpisode: true });
    expect(await environment.grade(completed)).toMatchObject({
      reward: 0,
      log: 'The conversation ended with "too_many_errors", which is not graded.',
    });
  });

  test("an empty message ends the episode as its side's fault, and throws nothing away", async () => {
    const data = await load("mock");
    const source = await tau2Source(data);
    const environment = source.open(source.taskset("base").task(0));
    expect(await environment.userSide!.act(words("   "))).toEqual({ results: [], endsEpisode: true });
    expect((await environment.grade(completed)).log).toContain("user_error");
    const other = source.open(source.taskset("base").task(0));
    await other.userSide!.act(words("Hi"));
    expect(await other.receiveUtterance("")).toEqual({ endsEpisode: true });
    expect((await other.grade(completed)).log).toContain("agent_error");
  });

  test("an assertion that raises is a reward of 0 with its reason, and no failure", async () => {
    const data = await load("mock");
    const source = await tau2Source(data);
    const index = (await data.tasks("base")).findIndex(({ id }) => id === "create_task_1_with_env_assertions");
    const environment = source.open(source.taskset("base").task(index));
    await environment.userSide!.act(hangUp);
    expect(await environment.grade(completed)).toMatchObject({
      reward: 0,
      log: "The state cannot be what the task asks for: Task task_2 not found.",
    });
  });

  test("without a user the agent has all tools, and ends with done", async () => {
    const data = await load("telecom");
    const source = await tau2Source(data, { isSolo: true });
    const tasks = await data.tasks("base");
    expect(source.name).toBe("tau2-bench/telecom-solo");
    const index = 3;
    const environment = source.open(source.taskset("base").task(index));
    expect(environment.guidelines).toContain(tasks[index]!.ticket);
    for (const { name, arguments: given } of tasks[index]!.criteria!.actions!) {
      expect(await environment.call({ name, arguments: given })).toMatchObject({ endsEpisode: false });
    }
    expect(await environment.call({ name: "done", arguments: new Map() })).toMatchObject({ endsEpisode: true });
    expect((await environment.grade(completed)).reward).toBe(1);
    await expect(load("retail").then((retail) => tau2Source(retail, { isSolo: true }))).rejects.toThrow(
      'Retail domain does not support solo mode; choose the domain without "-solo".',
    );
  });

  test("assertions in words are put to a judge, count as it says, and without one there is no reward", async () => {
    const source = await tau2Source(await load("retail"));
    const tasks = await (await load("retail")).tasks("base");
    const asked = tasks.flatMap((_, index) => (source.needsJudge!(source.taskset("base").task(index)) ? [index] : []));
    expect(asked).toHaveLength(40);
    const index = asked[0]!;
    const environment = source.open(source.taskset("base").task(index));
    // A conversation that is not graded is not shown to the judge.
    expect(environment.question!(completed)).toBe(null);
    await solve(environment, tasks[index]!);
    const question = await environment.question!(completed);
    expect(question!.messages[1]!.content).toContain("assistant: Hi! How can I help you today?");
    for (const assertion of tasks[index]!.criteria!.judged!) {
      expect(question!.messages[1]!.content).toContain(assertion.slice(0, 20));
    }
    expect(question!.schema).toBe(null);
    expect(await environment.grade(completed, judged(verdicts("no")))).toMatchObject({
      reward: 0,
      metrics: { database_right: 1, words_met: 0 },
      log: expect.stringContaining("not met: all of it (so it is)") as string,
    });
    // A judge without verdicts counts as satisfied, as in upstream.
    expect((await environment.grade(completed, judged('{"results": []}'))).reward).toBe(1);
    await expect(Promise.resolve(environment.grade(completed))).rejects.toThrow(
      "it has assertions in words, and there is no judge for them; pass --judge-model, or leave the task out with --tasks.",
    );
    expect((await tau2Source(await load("telecom"))).needsJudge).toBe(undefined);
  });

  test.each([
    ["", "the answer is empty"],
    ["<think>hm</think> they did", "the answer is not JSON"],
    ["[]", "the answer is not a JSON object"],
    ['{"results": null}', '"results" is not a list'],
    ['{"results": [1]}', "results[0] is not an object"],
    [verdicts(2), "results[0].metExpectation is neither true nor false"],
    [verdicts(null), "results[0].metExpectation is neither true nor false"],
    [verdicts(true).replace('"so it is"', "3"), "results[0].reasoning is not a string"],
    [verdicts(true).replace('"all of it"', "{}"), "results[0].expectedOutcome is not a string"],
  ])("a judge's answer %j is not a verdict", (answer, problem) => {
    expect(() => readVerdicts(answer)).toThrow(problem);
  });

  test("a judge may think first, and put its verdicts behind a fence", () => {
    const fenced = `<think>Was it said?</think>\n\`\`\`json\n${verdicts("YES")}\n\`\`\``;
    expect(readVerdicts(fenced)).toEqual([{ assertion: "all of it", isMet: true, reason: "so it is" }]);
    expect(readVerdicts("{}")).toEqual([]);
    const twice = (last: string): string => {
      const [one, other] = [verdicts(true), verdicts(last)].map((text) =>
        text.slice('{"results":['.length, -"]}".length),
      );
      return `{"results": [${one}, ${other}]}`;
    };
    expect(readVerdicts(twice("yes")).map(({ isMet }) => isMet)).toEqual([true, true]);
    expect(() => readVerdicts(twice("no"))).toThrow("results[1] says the opposite");
  });
});
