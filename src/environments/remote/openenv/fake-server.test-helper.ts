// A test server that speaks like openenv-core 0.3.0 and openenv 0.10.0: a number to guess, or two
// MCP tools. Frames have the fields, the field order and the codes that the real server sent (`npm
// run verify -- environments` runs the real one); the faults are invented.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

export type FakeFault = "close" | "reset" | "garbage" | "binary" | "silence" | "twice" | "huge" | "nan" | "list";

export type FakeOptions = {
  readonly flavour?: "typed" | "mcp";
  /** Maximum number of concurrent sessions. Default 4. */
  readonly capacity?: number;
  /** A fault that replaces the answer to message number `at`, counted from 0, in every session. */
  readonly fault?: { readonly at: number; readonly type: FakeFault };
  /**
   * Sizes of the splits of the Task API. If given, the server acts like openenv 0.10.0:
   * observations have metadata, inside and beside them.
   */
  readonly tasks?: Readonly<Record<string, number>>;
  /** True if the reward of every step is null. */
  readonly rewardsNothing?: boolean;
  /** True if the server never answers a client's close. */
  readonly ignoresClose?: boolean;
};

export type FakeServer = {
  readonly url: string;
  /** Messages from clients, by session, in order. */
  readonly received: readonly (readonly unknown[])[];
  open(): number;
  close(): Promise<void>;
};

type Data = {
  readonly type?: string;
  readonly guess?: unknown;
  readonly seed?: number;
  readonly index?: number;
  readonly tool_name?: string;
};

const observation = (fields: object, reward: number | null = null, done = false) => ({
  type: "observation",
  data: { observation: fields, reward, done },
});
const error = (code: string, message: string, more: object = {}) => ({
  type: "error",
  data: { message, code, ...more },
});

const typedAction = {
  additionalProperties: false,
  description: "Guesses the number.",
  properties: {
    metadata: { additionalProperties: true, title: "Metadata", type: "object" },
    guess: { maximum: 1000, minimum: 1, title: "Guess", type: "integer" },
  },
  required: ["guess"],
  title: "GuessAction",
  type: "object",
};
const mcpAction = {
  properties: {
    type: { const: "call_tool", default: "call_tool", type: "string" },
    tool_name: { type: "string" },
    arguments: { additionalProperties: true, type: "object" },
  },
  required: ["tool_name"],
  title: "CallToolAction",
  type: "object",
};

export async function fakeOpenEnv(options: FakeOptions = {}): Promise<FakeServer> {
  const { flavour = "typed", capacity = 4, fault, ignoresClose = false, tasks, rewardsNothing = false } = options;
  const received: unknown[][] = [];
  const sockets = new Set<WebSocket>();
  const http: Server = createServer((request, response) => {
    if (tasks !== undefined && request.url !== "/schema" && request.url !== "/metadata") {
      return taskApi(tasks, request, response);
    }
    const answers: Readonly<Record<string, object>> = {
      "/schema": { action: flavour === "typed" ? typedAction : mcpAction, observation: {}, state: {} },
      "/metadata": { name: "Guess", description: "Guess environment", version: "1.0.0" },
    };
    const answer = answers[request.url ?? ""];
    response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { detail: "Not Found" }));
  });
  const server = new WebSocketServer({ server: http, path: "/ws" });
  server.on("connection", (socket) => {
    socket.on("error", () => undefined);
    if (sockets.size >= capacity) {
      const counts = { active_sessions: sockets.size, max_sessions: capacity };
      socket.send(
        JSON.stringify(error("CAPACITY_REACHED", `Server at capacity: ${sockets.size}/${capacity}.`, counts)),
      );
      socket.close(1000);
      return;
    }
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    const log: unknown[] = [];
    received.push(log);
    const answer = flavour === "typed" ? typedWorld() : mcpWorld();
    socket.on("message", (bytes) => {
      const message = JSON.parse((bytes as Buffer).toString("utf8")) as { readonly type: string; readonly data: Data };
      const isFaulty = fault?.at === log.length;
      log.push(message);
      if (message.type === "close") {
        if (!ignoresClose) socket.close(1000);
        return;
      }
      const said = answer(message.type, message.data) as { type: string; data: Record<string, unknown> };
      if (rewardsNothing && said.type === "observation") said.data["reward"] = null;
      if (tasks !== undefined && said.type === "observation") {
        const metadata = { message: "The number is secret.", tries: 1 };
        said.data["observation"] = { metadata, ...(said.data["observation"] as object) };
        said.data["metadata"] = metadata;
      }
      const sent = JSON.stringify(said);
      if (isFaulty) fail(socket, fault.type, sent);
      else socket.send(sent);
    });
    if (ignoresClose) socket.close = () => undefined;
  });
  await new Promise<void>((resolve) => {
    http.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    received,
    open: () => sockets.size,
    close: () => {
      for (const socket of server.clients) socket.terminate();
      return new Promise((resolve) => {
        http.close(() => resolve());
      });
    },
  };
}

/** The Task API as openenv 0.10.0 answers it, for an environment named "Guess_Env". */
function taskApi(tasks: Readonly<Record<string, number>>, request: IncomingMessage, response: ServerResponse): void {
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  let text = "";
  request.setEncoding("utf8").on("data", (part: string) => (text += part));
  request.on("end", () => {
    const { split = "" } = (text === "" ? {} : JSON.parse(text)) as { readonly split?: string };
    switch (`${request.method} ${request.url}`) {
      case "GET /list_environments":
        return answer(200, ["Guess_Env"]);
      case "GET /Guess_Env/splits":
        return answer(
          200,
          Object.keys(tasks).map((name) => ({ name, type: name === "train" ? "train" : "validation" })),
        );
      case "POST /Guess_Env/num_tasks":
        return tasks[split] === undefined ? answer(501, { detail: "no" }) : answer(200, { num_tasks: tasks[split] });
      default:
        return answer(404, { detail: "Not Found" });
    }
  });
}

function fail(socket: WebSocket, type: FakeFault, sent: string): void {
  switch (type) {
    case "close":
      return socket.close(1011, "it went wrong");
    case "reset":
      return socket.terminate();
    case "garbage":
      return socket.send("<html>bad gateway</html>");
    case "binary":
      return socket.send(Buffer.from(sent));
    case "silence":
      return;
    case "twice":
      socket.send(sent);
      return socket.send(sent);
    case "huge":
      return socket.send(JSON.stringify(observation({ message: "x".repeat(200_000) })));
    case "nan":
      return socket.send(sent.replace(/"reward":[^,]*/, '"reward":NaN'));
    case "list":
      return socket.send(`[${sent}]`);
    default:
      return type satisfies never;
  }
}

function typedWorld() {
  let number = 0;
  let tries = 0;
  return (type: string, data: Data): object => {
    if (type === "reset") {
      number = ((data.seed ?? data.index ?? 0) % 8) + 1;
      return observation({ message: "Guess a number from 1 to 8.", tries: 0 });
    }
    const { guess } = data;
    if (typeof guess !== "number") {
      const problem = { type: "int_parsing", loc: ["guess"], msg: "Input should be a valid integer", input: guess };
      return error("VALIDATION_ERROR", "Invalid message", { errors: [problem] });
    }
    if (guess === 999) return error("EXECUTION_ERROR", "the world broke");
    tries++;
    if (guess === number) return observation({ message: "Right.", tries }, 1, true);
    return observation({ message: guess < number ? "Too low." : "Too high.", tries }, -0.125);
  };
}

function mcpWorld() {
  return (type: string, data: Data): object => {
    if (type === "reset") return observation({});
    if (data.type === "list_tools") {
      const input_schema = { type: "object", properties: { number: { type: "integer" } }, required: ["number"] };
      return observation({ tools: [{ name: "open_box", description: "Opens a box.", input_schema }] });
    }
    const called = (result: unknown, problem: object | null) =>
      observation({ tool_name: data.tool_name, result, error: problem }, problem === null ? 1 : 0, problem === null);
    const { number } = (data as { readonly arguments: { readonly number: number } }).arguments;
    if (number === 0) return called(null, { error_type: "transport_error", message: "the tool server is gone" });
    if (number > 4) return called(null, { error_type: "execution_error", message: `there is no box ${number}` });
    const content = [{ type: "text", text: "a coin" }, { type: "image", data: "aGk=", mimeType: "image/png" }]; // prettier-ignore
    return called({ content, structured_content: null, data: "a coin", is_error: false }, null);
  };
}
