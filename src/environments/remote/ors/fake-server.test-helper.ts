// A test server that speaks like ors-sdk 0.1.0: sums. Routes, fields and events are those that the
// real server sent (`npm run verify -- environments` runs the real one); the faults are invented.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/**
 * Fault in the answer to a call, such as a connection that ends before or after the id, or in the
 * middle of the data.
 */
export type FakeFault = "before-id" | "after-id" | "in-data" | "garbage" | "status-500" | "gone";

export type FakeOptions = {
  /**
   * A fault of call number `at`, counted from 0, in its first `times` requests. `times` defaults to
   * 1.
   */
  readonly fault?: { readonly at: number; readonly type: FakeFault; readonly times?: number };
  /** False for an older server, which has no tools per task. */
  readonly hasTaskTools?: boolean;
  /** Status of /create. Default 200. */
  readonly createStatus?: number;
};

export type FakeServer = {
  readonly url: string;
  /** `METHOD path session` of every request, in order. */
  readonly requests: readonly string[];
  /** Number of tool runs. */
  runs(): number;
  /** Open sessions. */
  open(): readonly string[];
  /** Expires all sessions. */
  expire(): void;
  close(): Promise<void>;
};

type Body = {
  readonly split?: string;
  readonly index?: number;
  readonly name?: string;
  readonly input?: { readonly value?: unknown };
  readonly task_id?: string;
};

export async function fakeOrs({
  fault,
  hasTaskTools = true,
  createStatus = 200,
}: FakeOptions = {}): Promise<FakeServer> {
  const requests: string[] = [];
  const sessions = new Map<string, number>();
  const answers = new Map<string, string>();
  let [named, calls, runs, faults] = [0, 0, 0, 0];
  const server = createServer((request, response) => void handle(request, response));
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = JSON.parse((await text(request)) || "{}") as Body;
    const session = String(request.headers["x-session-id"] ?? "");
    const route = `${request.method} ${request.url}`;
    requests.push(`${route} ${session}`.trim());
    const json = (status: number, value: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    };
    const needsSession = /\/(prompt|task_tools|call|ping)$/.test(route);
    if (needsSession && !sessions.has(session)) return json(404, { detail: "Active environment not found" });
    const input_schema = { properties: { value: { type: "integer" } }, required: ["value"], type: "object" };
    const tools = { tools: [{ name: "answer", description: "Answers.", input_schema }, { name: "look", description: "", input_schema: null }] }; // prettier-ignore
    switch (route) {
      case "GET /list_environments":
        return json(200, ["sums", "lamp"]);
      case "GET /sums/splits":
        return json(200, [{ name: "train", type: "train" }, { name: "hard", type: "validation" }]); // prettier-ignore
      case "POST /sums/num_tasks":
        return json(200, { num_tasks: body.split === "train" ? 32 : 4 });
      case "POST /create_session":
        response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
        return void response.end(`event: task_id\r\ndata: s${named++}\r\n\r\nevent: end\r\ndata: \r\n\r\n`);
      case "POST /create":
        if (createStatus !== 200) return json(createStatus, { detail: "Invalid index" });
        sessions.set(session, body.index ?? 0);
        return json(200, { sid: session });
      case "GET /sums/prompt":
        return json(200, [{ text: `What is ${sessions.get(session)} + 1?`, detail: null, type: "text" }]);
      case "GET /sums/task_tools":
        return hasTaskTools ? json(200, tools) : json(404, { detail: "Not Found" });
      case "GET /sums/tools":
        return json(200, tools);
      case "POST /ping":
        return json(200, { status: "ok" });
      case "POST /delete":
      case "POST /delete_session":
        sessions.delete(session);
        return json(200, { sid: session });
      case "POST /sums/call":
        return answer(response, session, body);
      default:
        return json(404, { detail: "Not Found" });
    }
  };
  const answer = (response: ServerResponse, session: string, body: Body): void => {
    const id = body.task_id ?? `call-${calls++}`;
    const isNew = body.task_id === undefined;
    const number = Number(id.slice(5));
    const isFaulty = fault?.at === number && faults < (fault.times ?? 1);
    if (isFaulty) faults++;
    if (isFaulty && fault.type === "status-500") {
      response.writeHead(500).end(JSON.stringify({ detail: "RuntimeError: it broke" }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    // A comment, which the real server sends every ten seconds.
    response.write(": ping - 2026-11-23\r\n\r\n");
    if (isNew) {
      runs++;
      answers.set(id, JSON.stringify(resultOf(body, sessions.get(session) ?? 0)));
    }
    if (isFaulty && fault.type === "before-id") return breakOff(response);
    const data = answers.get(id);
    if (data === undefined || (isFaulty && fault.type === "gone")) {
      return void response.end("event: error\r\ndata: unknown task_id\r\n\r\n");
    }
    response.write(`event: task_id\r\ndata: ${id}\r\n\r\n`);
    if (isFaulty && fault.type === "after-id") return breakOff(response);
    if (isFaulty && fault.type === "garbage") return void response.end("event: end\r\ndata: <html>\r\n\r\n");
    if (body.name === "break_down") return void response.end("event: error\r\ndata: the world broke\r\n\r\n");
    const middle = Math.floor(data.length / 2);
    response.write(`event: chunk\r\ndata: ${data.slice(0, middle)}\r\n\r\n`);
    if (isFaulty && fault.type === "in-data") return breakOff(response);
    response.end(`event: end\r\ndata: ${data.slice(middle)}\r\n\r\n`);
  };
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    runs: () => runs,
    open: () => [...sessions.keys()],
    expire: () => sessions.clear(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Breaks the connection after the text written so far has been sent. */
const breakOff = (response: ServerResponse): void => {
  response.write(":\r\n\r\n", () => response.destroy());
};

function resultOf({ name, input }: Body, left: number): object {
  if (name !== "answer" && name !== "break_down") return { ok: false, error: `'${name}' is not a valid tool` };
  if (name === "answer" && typeof input?.value !== "number") return { ok: false, error: "Tool input validation error" };
  const isRight = input?.value === left + 1;
  const image = { data: "aGk=", mimeType: "image/png", detail: null, type: "image" };
  const blocks = [{ text: isRight ? "right" : "wrong", detail: null, type: "text" }, image];
  return { ok: true, output: { blocks, metadata: { n: 1 }, reward: isRight ? 1 : 0, finished: isRight } };
}
