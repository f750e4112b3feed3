// Messages that a client of OpenEnv receives from our server, one by one.

import { connect as connectTcp } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { defineEnvironment } from "../environments/index.ts";
import { type AnsweringSocket, openSocket, parseBaseUrl } from "../http/index.ts";
import { scriptedUsers } from "../users/index.ts";
import { createEnvServer, EpisodeHost, type EnvServer, type EnvServerOptions } from "./index.ts";

const counter = defineEnvironment({
  name: "counter",
  guidelines: "Count when asked.",
  tools: {
    count: {
      description: "Counts up.",
      parameters: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
      run: ({ by }, state) => {
        state.count += Number(by);
        return { count: state.count };
      },
    },
    leave: {
      description: "Ends.",
      parameters: { type: "object", properties: {} },
      endsEpisode: true,
      run: () => "bye",
    },
  },
  tasks: {
    test: [
      { instruction: "Count to 3.", state: { count: 0 } },
      { instruction: "Count.", state: { count: 2 } },
    ],
  },
  grade: ({ state, said }) => (state.count === 3 ? 1 : 0) + said.length / 10,
});

/** The counter environment, whose worlds open after `begin`. */
function slowCounter() {
  let closes = 0;
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const slow: EnvServerOptions["source"] = {
    ...counter,
    open: async (task, given) => {
      await begun;
      return Object.assign(counter.open(task, given), { close: () => void closes++ });
    },
  };
  return { slow, begin, closes: () => closes };
}

let server: EnvServer;
const sockets: AnsweringSocket[] = [];
const options: EnvServerOptions = {
  source: counter,
  split: "test",
  host: "127.0.0.1",
  port: 0,
  token: null,
  version: "1",
  redact: String,
  user: scriptedUsers(["Please count.", "To 3.", "Bye ###STOP###"]),
  maxSessions: 2,
};
beforeEach(async () => {
  server = await createEnvServer(options);
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) await socket.close();
  await server.close();
});

async function connect(of: EnvServer = server, headers: Readonly<Record<string, string>> = {}) {
  const base = parseBaseUrl(of.url, { what: "server" });
  const socket = await openSocket(base, "/ws", { boundary: "environment", headers });
  sockets.push(socket);
  const send = async (type: string, data: unknown): Promise<unknown> =>
    JSON.parse((await socket.ask(JSON.stringify({ type, data }))).text);
  const call = (tool_name: string, args: object = {}) =>
    send("step", { type: "call_tool", tool_name, arguments: args });
  return { socket, send, call };
}

const answer = (observation: unknown, reward: number | null = null, done = false) => ({
  type: "observation",
  data: { observation, reward, done },
});
const said = (tool: string, text: string, isError = false) => ({
  tool_name: tool,
  result: { content: [{ type: "text", text }], structured_content: null, data: text, is_error: isError },
  error: null,
});

describe("OpenEnvFace", () => {
  it("plays an episode with its user, whose end brings the reward", async () => {
    const { send, call } = await connect();
    expect(await send("reset", { seed: 1, task: 0, episode_id: "e" })).toEqual(
      answer({ message: "Please count.", guidelines: "Count when asked.", task: "counter:test:0" }),
    );
    const listed = (await send("step", { type: "list_tools" })) as {
      readonly data: { readonly observation: { readonly tools: readonly { readonly name: string }[] } };
    };
    expect(listed.data.observation.tools.map(({ name }) => name)).toEqual(["count", "leave", "respond", "finish"]);
    expect(await call("respond", { message: "How far?" })).toEqual(answer(said("respond", "To 3.")));
    expect(await call("count", { by: 3 })).toEqual(answer(said("count", '{"count": 3}')));
    expect(await call("respond", { message: "Done." })).toEqual(answer(said("respond", "Bye ###STOP###"), 1.2, true));
    expect(await call("count", { by: 1 })).toMatchObject({ type: "error", data: { code: "EXECUTION_ERROR" } });
    expect(await send("state", {})).toEqual({ type: "state", data: { episode_id: "e", step_count: 3 } });
  });

  it("ends an episode whose world failed in a call, and begins again on the same socket", async () => {
    let calls = 0;
    const failing: EnvServerOptions["source"] = {
      ...counter,
      open: (task, given) => {
        const world = counter.open(task, given);
        if (world instanceof Promise) throw new Error("The counter opens at once.");
        return Object.assign(world, { call: () => Promise.reject(new Error(`no disk ${++calls}`)) });
      },
    };
    const other = await createEnvServer({ ...options, source: failing });
    try {
      const { send, call } = await connect(other);
      for (const nth of [1, 2]) {
        await send("reset", { task: 0 });
        expect(await call("count", { by: 1 })).toMatchObject({
          data: { code: "EXECUTION_ERROR", message: expect.stringContaining(`no disk ${nth}`) as string },
        });
        expect(await call("count", { by: 1 })).toMatchObject({
          data: { code: "EXECUTION_ERROR", message: "There is no episode: reset first." },
        });
      }
      expect(other.sessions()).toMatchObject({ closed: 2 });
    } finally {
      await other.close();
    }
  });

  it("ends by a tool and by finish, and begins again on the same socket", async () => {
    const { send, call } = await connect();
    await send("reset", { task: "counter:test:1" });
    expect(await call("count", { by: 1 })).toMatchObject({ data: { reward: null, done: false } });
    expect(await call("leave")).toEqual(answer(said("leave", "bye"), 1, true));
    await send("reset", {});
    expect(await call("finish")).toEqual(answer(said("finish", "The episode is over."), 0, true));
    expect(server.sessions()).toMatchObject({ opened: 2, closed: 1, active: 1 });
  });

  it("answers what is wrong, and keeps the session", async () => {
    const { socket, send, call } = await connect();
    const code = (value: string) => ({ type: "error", data: { code: value } });
    expect(await call("count")).toMatchObject(code("EXECUTION_ERROR"));
    expect(JSON.parse((await socket.ask("garbage")).text)).toMatchObject(code("INVALID_JSON"));
    expect(JSON.parse((await socket.ask("[]")).text)).toMatchObject(code("VALIDATION_ERROR"));
    expect(await send("dance", {})).toMatchObject(code("UNKNOWN_TYPE"));
    expect(await send("reset", { task: "counter:test:9" })).toMatchObject(code("VALIDATION_ERROR"));
    expect(await send("reset", { seed: -1 })).toMatchObject(code("VALIDATION_ERROR"));
    await send("reset", { task: 0 });
    expect(await send("step", { type: "call_tool" })).toMatchObject(code("VALIDATION_ERROR"));
    expect(await call("count", { by: "x" })).toMatchObject({ data: { observation: { result: { is_error: true } } } });
    expect(await call("nothing")).toMatchObject({
      data: { observation: { result: null, error: { error_type: "tool_not_found" } } },
    });
    expect(await call("count", { by: 1 })).toMatchObject({ type: "observation" });
  });

  it("says that it is full, and takes the next one when a socket has closed", async () => {
    const [one, two, three] = await Promise.all([connect(), connect(), connect()]);
    await one.send("reset", {});
    await two.send("reset", {});
    expect(await three.send("reset", {})).toMatchObject({ data: { code: "CAPACITY_REACHED", max_sessions: 2 } });
    await one.socket.close({ farewell: '{"type": "close"}' });
    await expect.poll(() => server.sessions().active).toBe(1);
    expect(await (await connect()).send("reset", {})).toMatchObject({ type: "observation" });
  });

  it("keeps nothing between calls of HTTP, as upstream", async () => {
    const post = async (path: string, body: object) => {
      const got = await fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
      return [got.status, await got.json()];
    };
    expect(await post("/reset", { task: 0 })).toMatchObject([200, { observation: { message: "Please count." } }]);
    const count = { type: "call_tool", tool_name: "count", arguments: { by: 2 } };
    // The first step runs in the first task, the second in the second task, which begins at 2.
    for (const text of ['{"count": 2}', '{"count": 4}']) {
      expect(await post("/step", { action: count })).toMatchObject([200, { observation: said("count", text) }]);
    }
    expect(await post("/step", {})).toMatchObject([422, { detail: '"action" is not an object.' }]);
    const get = async (path: string) => (await fetch(server.url + path)).json();
    expect(await get("/schema")).toMatchObject({ action: { title: "CallToolAction" } });
    expect(await get("/metadata")).toMatchObject({ name: "counter" });
    expect(await get("/tasks")).toMatchObject({ name: "counter", sizes: { test: 2 } });
    expect(server.sessions()).toMatchObject({ active: 0 });
  });

  it("has the Task API, whose tasks are places and nothing of what is to be done", async () => {
    const ask = async (method: string, path: string, body?: object) => {
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const got = await fetch(server.url + path, { method, ...sent });
      return [got.status, await got.json()];
    };
    const [first, second] = [0, 1].map((index) => ({ id: `counter:test:${index}`, split: "test", index }));
    const test = { split: "test" };
    expect(await ask("GET", "/list_environments")).toEqual([200, ["counter"]]);
    expect(await ask("GET", "/Counter/splits")).toEqual([200, [{ name: "test", type: "test" }]]);
    expect(await ask("POST", "/counter/num_tasks", test)).toEqual([200, { num_tasks: 2 }]);
    expect(await ask("POST", "/counter/tasks", test)).toEqual([200, { tasks: [first, second], env_name: "counter" }]);
    expect(await ask("POST", "/counter/task", { ...test, index: 1 })).toEqual([200, { task: second }]);
    expect(await ask("POST", "/counter/task_range", { ...test, start: -1 })).toEqual([200, { tasks: [second] }]);
    expect(await ask("POST", "/counter/task_range", { ...test, start: 0, stop: 1 })).toEqual([200, { tasks: [first] }]);
    expect(await ask("POST", "/counter/task", { ...test, index: 2 })).toMatchObject([400, {}]);
    expect(await ask("POST", "/counter/num_tasks", { split: "train" })).toMatchObject([422, {}]);
    expect(await ask("GET", "/chess/splits")).toMatchObject([404, {}]);
    const { send } = await connect();
    expect(await send("reset", { split: "test", index: 1 })).toMatchObject({
      data: { observation: { task: second!.id } },
    });
    expect(await send("reset", { split: "test", index: 9 })).toMatchObject({ data: { code: "VALIDATION_ERROR" } });
    expect(await send("reset", { split: "none", index: 0 })).toMatchObject({ data: { code: "VALIDATION_ERROR" } });
  });

  it("has sessions that HTTP and a socket share, until they are closed", async () => {
    const rpc = async (method: string, params: object = {}) => {
      const message = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
      const got = await fetch(`${server.url}/mcp`, { method: "POST", body: message });
      return (await got.json()) as { readonly result?: Readonly<Record<string, unknown>>; readonly error?: object };
    };
    const { result } = await rpc("openenv/session/create");
    const session_id = result?.["session_id"] as string;
    const attach = async () => {
      const base = parseBaseUrl(server.url, { what: "server" });
      const socket = await openSocket(base, `/ws?session_id=${session_id}`, { boundary: "environment" });
      sockets.push(socket);
      return socket;
    };
    const socket = await attach();
    const reset = JSON.stringify({ type: "reset", data: { task: 0, seed: 1 } });
    expect(JSON.parse((await socket.ask(reset)).text)).toMatchObject({
      data: { observation: { message: "Please count." } },
    });
    expect(await rpc("tools/list", { session_id })).toMatchObject({
      id: 7,
      result: { tools: [{ name: "count" }, {}, {}, {}] },
    });
    const call = { session_id, name: "count", arguments: { by: 3 } };
    expect(await rpc("tools/call", call)).toMatchObject({ result: { data: '{"count": 3}', is_error: false } });
    await socket.close();
    expect(await rpc("tools/call", { ...call, arguments: { by: 1 } })).toMatchObject({
      result: { data: '{"count": 4}' },
    });
    expect(await rpc("tools/call", { ...call, name: "none" })).toMatchObject({ error: { code: -32602 } });
    const again = await attach();
    const step = JSON.stringify({ type: "step", data: { type: "call_tool", tool_name: "finish", arguments: {} } });
    expect(JSON.parse((await again.ask(step)).text)).toMatchObject({ data: { done: true, reward: 0 } });
    expect(await rpc("openenv/session/close", { session_id })).toMatchObject({ result: { closed: true } });
    expect(await rpc("tools/list", { session_id })).toMatchObject({ error: { code: -32602 } });
    const late = await attach();
    expect(JSON.parse((await late.ask(reset)).text)).toMatchObject({ data: { code: "SESSION_ERROR" } });
    expect(server.sessions()).toMatchObject({ opened: 1, closed: 1, active: 0 });
  });

  it("closes an episode whose client left while it was opened", async () => {
    const { slow, begin } = slowCounter();
    const late = await createEnvServer({ ...options, source: slow });
    try {
      const socket = new WebSocket(`${late.url.replace("http", "ws")}/ws`);
      await new Promise((resolve) => socket.once("open", resolve));
      socket.send('{"type": "reset", "data": {}}');
      await expect.poll(() => late.sessions().active).toBe(1);
      socket.terminate();
      // Once a second socket is answered, the server has noticed that the first is closed.
      const { send } = await connect(late);
      await send("state", {});
      begin();
      await expect.poll(() => late.sessions()).toEqual({ opened: 1, closed: 1, active: 0 });
    } finally {
      await late.close();
    }
  });

  it("a host that is closed while an episode opens closes it when it is there", async () => {
    const { slow, begin, closes } = slowCounter();
    const host = new EpisodeHost({ source: slow, split: "test", user: null });
    const opening = host.open({ task: "0", seed: 0, hasUser: false });
    await host.close();
    begin();
    await expect(opening).rejects.toThrow("The server is closing.");
    expect(closes()).toBe(1);
    expect(host.counts).toMatchObject({ active: 0 });
  });

  it("a world that does not open in time holds no place, and is closed when it comes", async () => {
    const { slow, begin, closes } = slowCounter();
    const host = new EpisodeHost({ source: slow, split: "test", user: null, openMs: 20 });
    await expect(host.open({ task: "0", seed: 0, hasUser: false })).rejects.toThrow("raise --open-timeout");
    expect(host.counts).toEqual({ opened: 0, closed: 0, active: 0 });
    begin();
    await expect.poll(closes).toBe(1);
    await host.close();
  });

  it("a user who does not begin in time ends the episode", async () => {
    const silent: EnvServerOptions["user"] = {
      ...options.user!,
      create: () => ({ open: () => new Promise(() => undefined), reply: () => new Promise(() => undefined) }),
    };
    const host = new EpisodeHost({ source: counter, split: "test", user: silent, openMs: 20 });
    await expect(host.open({ task: "0", seed: 0, hasUser: true })).rejects.toThrow("Time is up");
    expect(host.counts).toEqual({ opened: 1, closed: 1, active: 0 });
    await host.close();
  });

  it("a client without the token is refused before its body is read", async () => {
    const guarded = await createEnvServer({ ...options, token: "secret" });
    try {
      const { port, hostname } = new URL(guarded.url);
      const socket = connectTcp(Number(port), hostname);
      const answered = new Promise<string>((resolve) => {
        socket.once("data", (data) => resolve(data.toString("latin1")));
      });
      socket.write("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
      expect(await answered).toContain("401");
      socket.destroy();
    } finally {
      await guarded.close();
    }
  });

  it("ends a socket that does not wait for answers, and its episode", async () => {
    const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws`);
    await new Promise((resolve) => socket.once("open", resolve));
    const closed = new Promise<number>((resolve) => {
      socket.once("close", resolve);
    });
    for (let time = 0; time < 500; time++) socket.send('{"type": "reset", "data": {}}');
    expect(await closed).toBe(1008);
    await expect.poll(() => server.sessions().active).toBe(0);
    expect(server.sessions().opened).toBeLessThan(20);
  });

  it("an episode that hearing ends is over with its reward, and its user is not asked", async () => {
    const short: EnvServerOptions["source"] = {
      ...counter,
      open: (task, given) => {
        const world = counter.open(task, given);
        const hear = async (text: string, more?: { readonly signal: AbortSignal }) => {
          await world.receiveUtterance(text, more);
          return { endsEpisode: text === "Stop." };
        };
        const call: typeof world.call = (one, more) => world.call(one, more);
        const grade: typeof world.grade = (ending, more) => world.grade(ending, more);
        const { guidelines, tools, info } = world;
        return { task, guidelines, tools, info, call, receiveUtterance: hear, grade, digest: () => world.digest() };
      },
    };
    const brief = await createEnvServer({ ...options, source: short });
    try {
      const { send, call } = await connect(brief);
      await send("reset", { task: 0 });
      expect(await call("respond", { message: "Go on?" })).toMatchObject(answer(said("respond", "To 3.")));
      expect(await call("respond", { message: "Stop." })).toEqual(answer(said("respond", ""), 0.2, true));
    } finally {
      await brief.close();
    }
  });

  it("counts an episode once while its user begins", async () => {
    let speak = (): void => undefined;
    const spoken = new Promise<void>((resolve) => {
      speak = resolve;
    });
    const user = scriptedUsers(["Please count."]);
    const thinking: NonNullable<EnvServerOptions["user"]> = {
      ...user,
      create: (task, given) => {
        const one = user.create(task, given);
        return {
          open: async (more) => {
            await spoken;
            return one.open(more);
          },
          reply: (text, more) => one.reply(text, more),
        };
      },
    };
    const slow = await createEnvServer({ ...options, user: thinking });
    try {
      const [one, two] = await Promise.all([connect(slow), connect(slow)]);
      const first = one.send("reset", {});
      await expect.poll(() => slow.sessions()).toMatchObject({ opened: 1, active: 1 });
      const second = two.send("reset", {});
      await expect.poll(() => slow.sessions()).toMatchObject({ opened: 2, active: 2 });
      speak();
      expect(await Promise.all([first, second])).toMatchObject([{ type: "observation" }, { type: "observation" }]);
    } finally {
      await slow.close();
    }
  });

  it.each(["//", "/ws/..//", "http://[", "*"])("answers an upgrade to the path %s, and goes on", async (path) => {
    const { port } = new URL(server.url);
    const status = await new Promise<string>((resolve, reject) => {
      const socket = connectTcp(Number(port), "127.0.0.1", () => {
        socket.write(
          `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
        );
      });
      socket.once("data", (data) => {
        resolve(data.toString().split("\r\n")[0]!);
        socket.destroy();
      });
      socket.once("error", reject);
    });
    expect(status).toBe("HTTP/1.1 404 Not Found");
    expect(await (await connect()).send("reset", {})).toMatchObject({ type: "observation" });
  });

  it("asks for its token before there is a socket", async () => {
    const guarded = await createEnvServer({ ...options, token: "t" });
    try {
      await expect(connect(guarded)).rejects.toMatchObject({ failure: { code: "bad-reply" } });
      const { send } = await connect(guarded, { authorization: "Bearer t" });
      expect(await send("reset", {})).toMatchObject({ type: "observation" });
      await expect(connect(server, { origin: "http://example.com" })).rejects.toMatchObject({
        failure: { code: "bad-reply" },
      });
    } finally {
      await guarded.close();
    }
  });
});
