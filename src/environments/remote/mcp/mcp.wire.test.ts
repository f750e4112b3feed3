import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Environment } from "../../../core/environment.ts";
import { AttributedError, ConfigurationError, messageOf } from "../../../core/failure.ts";
import type { RemoteSource } from "../index.ts";
import { hostileServer } from "./hostile-server.test-helper.ts";
import { type McpEnvironmentOptions, mcpEnvironment, type McpGraderInput, readMcpTasks } from "./index.ts";
import { parseMcpCommand } from "./mcp-process.ts";
import { loadMcpLibrary } from "./mcp-library.ts";

const options = { signal: new AbortController().signal, seed: 0 };
const sources: RemoteSource[] = [];
afterEach(async () => {
  await Promise.all(sources.splice(0).map((one) => one.close()));
});

type Grader = (input: McpGraderInput) => unknown;

async function source(
  address: string,
  changes: Partial<McpEnvironmentOptions> & { readonly grader?: Grader; readonly line?: object } = {},
): Promise<RemoteSource> {
  const { grader = () => 1, line = {}, ...more } = changes;
  const text = JSON.stringify({ id: "a", instruction: "Add.", grader: "./grader.mjs", ...line });
  const tasks = await readMcpTasks(text, { file: "tasks.jsonl", loadGrader: async () => grader });
  const made = await mcpEnvironment({ address, tasks, warm: 0, ...more });
  sources.push(made);
  return made;
}

const openOne = async (made: RemoteSource): Promise<Environment> => made.open(made.taskset("test").task(0), options);
const call = async (world: Environment, name: string, args: Readonly<Record<string, number>> = {}) =>
  world.call({ name, arguments: new Map(Object.entries(args)) });
const faultOf = async (action: unknown): Promise<string> =>
  Promise.resolve(action).then(
    () => "none",
    (error: unknown) =>
      error instanceof AttributedError ? `${error.failure.code}: ${error.failure.message}` : messageOf(error),
  );

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    // A zombie process, not yet waited for, still has an entry.
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
const pidsOf = (log: string): number[] =>
  [...readFileSync(log, "utf8").matchAll(/^start (\d+) (\d+)$/gm)].flatMap(([, a, b]) => [Number(a), Number(b)]);

describe("mcpEnvironment() over standard input and output", () => {
  it("runs a task on a process of its own: tools, results as text, and a grader that looks at the end state", async () => {
    const { address, log } = hostileServer();
    const seen: McpGraderInput[] = [];
    const made = await source(address, {
      grader: async (input) => {
        seen.push(input);
        const sum = await input.callTool("add", { a: 40, b: 2 });
        return { reward: sum.text === "42" ? 0.5 : 0, metrics: { calls: input.calls.length }, log: "seen" };
      },
    });
    expect([made.name, made.users, made.resume]).toEqual(["mcp", ["task", "llm", "human", "scripted"], "restart"]);
    const world = await openOne(made);
    expect([world.guidelines, world.tools[0]!.name]).toEqual(["Use the tools.", "add"]);
    expect(await call(world, "add", { a: 1, b: 2 })).toMatchObject({ text: "3", isError: false, endsEpisode: false });
    expect((await call(world, "image")).text).toBe("here:\n[image image/png, 3 bytes, not shown]");
    expect((await call(world, "structured")).text).toBe('{"b": 1, "a": [true]}');
    expect((await call(world, "many")).text).toBe(
      "[resource a://b]\ninside\n[resource a://c, unknown, 3 bytes, not shown]\n[resource a://d, d, not read]\n[audio audio/wav, 1 bytes, not shown]",
    );
    expect(await call(world, "none")).toMatchObject({ text: "no such book", isError: true });
    const refused = await call(world, "refuse");
    expect([refused.isError, refused.text]).toEqual([true, "Error: a is needed"]);
    await world.receiveUtterance("It is 3.");
    expect(await world.grade({ outcome: "completed" })).toMatchObject({
      reward: 0.5,
      metrics: { calls: 6 },
      log: "seen",
    });
    expect(await world.grade({ outcome: "truncated" })).toMatchObject({ reward: 0 });
    expect([seen.length, seen[0]!.said, seen[0]!.calls[0]!.arguments]).toEqual([1, ["It is 3."], { a: 1, b: 2 }]);
    await world.close?.();
    await vi.waitFor(() => expect(pidsOf(log).map(isAlive)).toEqual([false, false]));
  });

  const faults: readonly (readonly [tool: string, code: string])[] = [
    ["break", "remote-error"],
    ["exit", "remote-lost"],
    ["garbage", "remote-invalid"],
    ["flood", "remote-invalid"],
    ["hang", "remote-timeout"],
  ];
  it.each(faults)("a tool that does %s fails with %s, and its processes end", async (tool, code) => {
    const { address, log } = hostileServer();
    const made = await source(address, { limits: { callMs: tool === "hang" ? 200 : 20_000 } });
    const world = await openOne(made);
    const fault = await faultOf(call(world, tool));
    expect(fault.startsWith(`${code}: `) ? code : fault).toBe(code);
    if (tool === "exit") expect(fault).toContain("out of memory");
    await world.close?.();
    await vi.waitFor(() => expect(pidsOf(log).map(isAlive)).toEqual([false, false]));
    expect(made.sessions()).toMatchObject({ opened: 1, closed: 1, active: 0 });
  });

  it("a grader that throws is a fault of the grader", async () => {
    const made = await source(hostileServer().address, {
      grader: () => {
        throw new Error("no such field");
      },
    });
    const world = await openOne(made);
    await expect(world.grade({ outcome: "completed" })).rejects.toMatchObject({ failure: { boundary: "grader" } });
    await world.close?.();
  });

  it("kills a server that will not end, with what it has started", async () => {
    const { address, log } = hostileServer("stubborn");
    const made = await source(address);
    const world = await openOne(made);
    await world.close?.();
    await vi.waitFor(() => expect(pidsOf(log).map(isAlive)).toEqual([false, false]));
  });

  it("says what a server that does not start said", async () => {
    const fault = await faultOf(openOne(await source(hostileServer("dies").address)));
    expect(fault).toMatch(/^remote-unreachable: .*no key/);
    expect(await faultOf(openOne(await source("/no/such/program x")))).toMatch(/^remote-unreachable: .*ENOENT/);
  });

  it("answers elicitation by policy, and declines to sample", async () => {
    const { address } = hostileServer();
    const declining = await openOne(await source(address));
    expect(JSON.parse((await call(declining, "ask")).text)).toEqual({ action: "decline" });
    expect(JSON.parse((await call(declining, "sample")).text)).toMatchObject({ code: -32601 });
    const accepting = await openOne(await source(address, { elicitation: "accept-defaults" }));
    expect(JSON.parse((await call(accepting, "ask")).text)).toEqual({ action: "accept", content: { name: "Ada" } });
    await Promise.all([declining.close?.(), accepting.close?.()]);
  });

  it("notes a list of tools that changed, and shows the policy the one it began with", async () => {
    const world = await openOne(await source(hostileServer().address));
    await call(world, "grow");
    const { info } = await call(world, "add", { a: 1, b: 1 });
    expect(Object.fromEntries(info.get("mcpToolList") as Map<string, unknown>)).toEqual({
      changes: 1,
      added: ["more"],
      removed: ["odd"],
    });
    expect(world.tools.map(({ name }) => name)).not.toContain("more");
    await world.close?.();
  });

  it("writes the files of a task into a folder of the episode, and removes it", async () => {
    let folder = "";
    const made = await source(`${hostileServer().address} {folder}`, {
      line: { files: { "in/a.txt": "text" } },
      grader: (input) => {
        folder = input.folder ?? "";
        return readFileSync(join(folder, "in/a.txt"), "utf8") === "text" ? 1 : 0;
      },
    });
    const world = await openOne(made);
    expect(await world.grade({ outcome: "completed" })).toMatchObject({ reward: 1 });
    await world.close?.();
    expect([folder !== "", existsSync(folder)]).toEqual([true, false]);
  });

  it("hides the start of processes behind a warm pool, each for one episode, and ends those that wait", async () => {
    const { address, log } = hostileServer();
    const made = await source(address, { warm: 2 });
    await (await openOne(made)).close?.();
    await vi.waitFor(() => expect(pidsOf(log)).toHaveLength(6));
    // Idle processes are started when one is acquired, and are used before another one is started.
    const world = await openOne(made);
    const before = pidsOf(log).length;
    expect(before).toBeLessThanOrEqual(8);
    await world.close?.();
    await made.close();
    await vi.waitFor(() => expect(pidsOf(log).filter(isAlive)).toEqual([]));
  });
});

describe("readMcpTasks()", () => {
  const read = (text: string, loaded: unknown = () => 1) =>
    readMcpTasks(text, { file: "t.jsonl", loadGrader: async () => loaded });
  const line = (changes: object): string =>
    JSON.stringify({ id: "a", instruction: "Go.", grader: "g.mjs", ...changes });

  it.each([
    ["", "it has none"],
    ["{", "line 1"],
    [line({ id: "" }), '"id"'],
    [line({ graders: 1 }), '"graders" is not a field of a task'],
    [line({ grader: undefined }), '"grader" is missing'],
    [line({ instruction: undefined }), "neither an instruction nor an agenda"],
    [line({ agenda: { goals: [] } }), "agenda."],
    [line({ files: { "../x": "" } }), "outside the folder"],
    [`${line({})}\n${line({})}`, "another task"],
  ])("refuses %s", async (text, problem) => {
    const error = await read(text).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(messageOf(error)).toContain(problem);
  });

  it("refuses a grader that is not a function", async () => {
    await expect(read(line({}), 5)).rejects.toThrow("is not a function");
  });
});

describe("parseMcpCommand()", () => {
  it("splits as a shell does, and takes variables by name", () => {
    const { file, args, variables } = parseMcpCommand(`KEY=$MY_KEY A='b c' run "x y" \\"z {folder}`, {
      MY_KEY: "secret",
      PATH: "/bin",
      OTHER: "no",
    });
    expect([file, args]).toEqual(["run", ["x y", '"z', "{folder}"]]);
    expect(variables).toEqual({ KEY: "secret", A: "b c", PATH: "/bin" });
    expect(() => parseMcpCommand("KEY=$NONE run", {})).toThrow("no variable NONE");
    expect(() => parseMcpCommand("run 'x", {})).toThrow("not closed");
    expect(() => parseMcpCommand(" ", {})).toThrow("names no program");
  });
});

describe("loadMcpLibrary()", () => {
  it("says how it is installed when it is not", async () => {
    await expect(loadMcpLibrary("@modelcontextprotocol/none")).rejects.toThrow(
      'run "npm install @modelcontextprotocol/client@2"',
    );
  });
});
