// Servers that send malformed fields, tools and bodies, at random, over HTTP and over standard
// output: the world stays usable, and only the malformed parts are lost.

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { AttributedError } from "../../../core/failure.ts";
import type { Environment } from "../../../core/environment.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import type { RemoteSource } from "../index.ts";
import { hostileServer } from "./hostile-server.test-helper.ts";
import { mcpEnvironment, type McpEnvironmentOptions, readMcpTasks } from "./index.ts";
import { readTool } from "./odd-messages.ts";
import { readToolResult } from "./result-text.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Behaviour of a server; `body` makes the body of an HTTP answer to a message from the plain
 * answer.
 */
type Manners = {
  readonly isModern: boolean;
  readonly about: Fields;
  readonly pages: readonly (readonly unknown[])[];
  readonly lastCursor: unknown;
  readonly result: unknown;
  readonly envelope: Fields;
  readonly meta: unknown;
  readonly encoding: "json" | "events" | "gzip" | "text";
  readonly stringIds: boolean;
  /** Compressed body sent instead of the result of a call. */
  readonly bomb?: string;
};

const good = {
  name: "good",
  description: "Does well.",
  inputSchema: { type: "object", properties: { a: { type: "number" } } },
};

/** Marker for a method that a server does not have. */
const unknown = Symbol("unknown");

let manners: Manners;
const calls: unknown[] = [];
const server = createServer((incoming, outgoing) => {
  void bodyOf(incoming).then((text): unknown => {
    if (incoming.method !== "POST") return outgoing.writeHead(405).end();
    const { id, method, params } = JSON.parse(text) as { id?: number; method: string; params?: Fields };
    if (id === undefined) return outgoing.writeHead(202).end();
    const { bomb } = manners;
    if (method === "tools/call" && bomb !== undefined) {
      const type = manners.encoding === "json" ? "application/json" : "text/event-stream";
      return outgoing.writeHead(200, { "content-type": type, "content-encoding": "gzip" }).end(gzipSync(bomb));
    }
    const answer = answerOf(method, params ?? {});
    if (answer === unknown) return outgoing.writeHead(400, { "content-type": "text/plain" }).end("no such method");
    const { isModern, meta, stringIds, envelope, encoding } = manners;
    const extra = { ...(isModern ? { resultType: "complete" } : {}), ...(meta === undefined ? {} : { _meta: meta }) };
    const result =
      typeof answer === "object" && answer !== null && !Array.isArray(answer) ? { ...answer, ...extra } : answer;
    const message = JSON.stringify({ jsonrpc: "2.0", id: stringIds ? String(id) : id, result, ...envelope });
    if (encoding === "events") {
      const noise = 'data: {"level": "info"}\n\n: still here\n\n';
      outgoing
        .writeHead(200, { "content-type": "text/event-stream" })
        .end(`${noise}event: message\ndata: ${message}\n\n`);
    } else if (encoding === "gzip") {
      const head = { "content-type": "application/json; charset=utf-8", "content-encoding": "gzip" };
      outgoing.writeHead(200, head).end(gzipSync(message));
    } else {
      const type = encoding === "text" ? "text/plain" : "application/json";
      outgoing.writeHead(200, { "content-type": type }).end(message);
    }
    return undefined;
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
afterAll(() => void server.close());

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function answerOf(method: string, params: Fields): unknown {
  const { isModern, about, pages, lastCursor, result } = manners;
  switch (method) {
    case "server/discover":
      return isModern ? { supportedVersions: ["2026-07-28"], ttlMs: 0, cacheScope: "private", ...about } : unknown;
    case "initialize":
      return isModern ? unknown : { protocolVersion: "2025-06-18", ...about };
    case "tools/list": {
      const at = Number(params["cursor"] ?? 0);
      return {
        tools: pages[at] ?? [],
        nextCursor: at + 1 < pages.length ? String(at + 1) : lastCursor,
        ttlMs: 0,
        cacheScope: "private",
      };
    }
    case "tools/call":
      calls.push(params);
      return result;
    default:
      return {};
  }
}

/** Address of a server that prints a line before and after each message. */
const printing = (line: string): string =>
  hostileServer("prints", encodeURIComponent(line).replaceAll("'", "%27")).address;

const sources: RemoteSource[] = [];
afterEach(async () => {
  await Promise.all(sources.splice(0).map((one) => one.close()));
});

async function open(at: string, changes: Partial<McpEnvironmentOptions> = {}): Promise<Environment> {
  const text = JSON.stringify({ id: "a", instruction: "Go.", grader: "./grader.mjs" });
  const tasks = await readMcpTasks(text, { file: "tasks.jsonl", loadGrader: async () => () => 1 });
  const source = await mcpEnvironment({ address: at, tasks, warm: 0, onNotice: () => undefined, ...changes });
  sources.push(source);
  return source.open(source.taskset("test").task(0), { signal: new AbortController().signal, seed: 0 });
}

const oddValue = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.string(),
  fc.constant([]),
  fc.constant({}),
  fc.constant({ type: null }),
  fc.jsonValue(),
);
const fieldsOf = (...names: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...names), oddValue, { maxKeys: names.length });

const oddTool = fc.oneof(
  oddValue,
  fieldsOf("name", "description", "inputSchema", "outputSchema", "annotations", "title", "icons", "_meta", "execution"),
  fc
    .tuple(
      fc.string({ minLength: 1 }),
      fieldsOf("type", "properties", "required", "$defs", "additionalProperties", "anyOf"),
    )
    .map(([name, inputSchema]) => ({ name, inputSchema })),
);
const block = fc.oneof(
  oddValue,
  fieldsOf("type", "text", "data", "mimeType", "uri", "resource", "annotations", "_meta"),
  fc
    .constantFrom("text", "image", "audio", "resource", "resource_link", "hologram")
    .chain((type) =>
      fieldsOf("text", "data", "mimeType", "uri", "name", "resource", "annotations").map((more) => ({ ...more, type })),
    ),
);
const someResult = fc.oneof(
  fieldsOf("content", "structuredContent", "isError", "_meta", "toolResult"),
  fc
    .tuple(fc.array(block), fieldsOf("structuredContent", "isError", "annotations"))
    .map(([content, more]) => ({ ...more, content })),
  oddValue,
);
const someManners: fc.Arbitrary<Manners> = fc.record({
  isModern: fc.boolean(),
  about: fieldsOf("capabilities", "serverInfo", "instructions", "title"),
  pages: fc
    .tuple(fc.array(fc.array(oddTool, { maxLength: 3 }), { maxLength: 3 }), fc.nat(2))
    .map(([pages, at]) => [...pages.slice(0, at), [good], ...pages.slice(at)]),
  lastCursor: fc.constantFrom<unknown>(null, undefined, "", 0, false, {}, []),
  result: someResult,
  envelope: fc.constantFrom<Fields>({}, { error: null }, { extra: 1, error: null }),
  meta: fc.constantFrom<unknown>(undefined, null, "x", [], { a: 1 }),
  encoding: fc.constantFrom<Manners["encoding"]>("json", "events", "gzip", "text"),
  stringIds: fc.boolean(),
});

describe("a server over HTTP with odd manners", () => {
  it("has a world that opens, whose good tool is called, and that grades", async () => {
    await fc.assert(
      fc.asyncProperty(someManners, async (drawn) => {
        manners = drawn;
        calls.length = 0;
        const world = await open(address);
        expect(world.tools.map(({ name }) => name)).toContain("good");
        const { text, isError } = await world.call({ name: "good", arguments: new Map([["a", 1]]) });
        const { isError: given } = (drawn.result ?? {}) as { readonly isError?: unknown };
        expect([typeof text, isError]).toEqual(["string", given === true && !Array.isArray(drawn.result)]);
        expect(calls).toHaveLength(1);
        expect(await world.grade({ outcome: "completed" })).toMatchObject({ reward: 1 });
        await world.close?.();
      }),
      { numRuns: 150 },
    );
  }, 120_000);

  const plain: Manners = {
    isModern: false,
    about: { capabilities: { tools: {} } },
    pages: [[good]],
    lastCursor: undefined,
    result: { content: [] },
    envelope: {},
    meta: undefined,
    encoding: "json",
    stringIds: false,
  };

  it("says each tool that it leaves out once, and why", async () => {
    const notices: string[] = [];
    const typed = { ...good, name: "list", inputSchema: { type: "array" } };
    manners = { ...plain, pages: [[good, null, { ...good, description: 1 }, { name: "" }, typed, { name: "bare" }]] };
    const options = { onNotice: (message: string) => notices.push(message) };
    const world = await open(address, options);
    expect(world.tools.map(({ name }) => name)).toEqual(["good", "bare"]);
    expect(notices.map((notice) => notice.replace(/of the MCP server "[^"]*" /, ""))).toEqual([
      "Notice: tool without a name is left out: it is not an object.",
      'Notice: tool "good" is left out: another tool has its name.',
      'Notice: tool "" is left out: it has no name.',
      'Notice: tool "list" is left out: its arguments are of type "array".',
    ]);
    await world.close?.();
  });

  it.each(["json", "events"] as const)(
    "is at fault when an answer as %s is larger than the bound",
    async (encoding) => {
      const text = "x".repeat(300_000_000);
      const bomb =
        encoding === "json" ? `{"jsonrpc": "2.0", "id": 1, "result": {"content": "${text}"}}` : `data: ${text}`;
      manners = { ...plain, encoding, bomb };
      const world = await open(address);
      const fault = await Promise.resolve(world.call({ name: "good", arguments: new Map() })).catch(
        (error: unknown) => error,
      );
      expect(fault).toBeInstanceOf(AttributedError);
      expect((fault as AttributedError).failure).toMatchObject({ code: "remote-invalid" });
      await world.close?.();
    },
  );
});

describe("a server over standard output that prints for people", () => {
  it.each([
    "{starting}",
    '{"level": "info", "msg": "ready"}',
    '{"method": "GET", "path": "/"}',
    '{"id": 7, "result": "of a query"}',
    "[1, 2",
    "[warn] {",
    '{"a": ',
    "\u001b[32m{ok}\u001b[0m",
    'received {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}',
    '{"jsonrpc": "2.0", "method": 5}',
  ])("such as %s goes on", async (line) => {
    const world = await open(printing(line));
    expect(await world.call({ name: "add", arguments: new Map([["a", 1], ["b", 2]]) })).toMatchObject({ text: "3" }); // prettier-ignore
    await world.close?.();
  });

  it("goes on with random lines between its messages", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((text) => text.slice(0, -1)),
        ),
        async (line) => {
          const world = await open(printing(line.replaceAll(/[\r\n\ud800-\udfff]/g, " ")));
          expect(await world.call({ name: "add", arguments: new Map([["a", 1], ["b", 2]]) })).toMatchObject({ text: "3" }); // prettier-ignore
          await world.close?.();
        },
      ),
      { numRuns: 15 },
    );
  }, 120_000);

  it("is asked in the usual way when it ends at a question that it does not know", async () => {
    const world = await open(hostileServer("strict").address);
    expect(await world.call({ name: "add", arguments: new Map([["a", 1], ["b", 2]]) })).toMatchObject({ text: "3" }); // prettier-ignore
    await world.close?.();
  });
});

describe("readToolResult()", () => {
  const text = (...texts: readonly string[]) => texts.map((one) => ({ type: "text", text: one }));
  it.each<[string, unknown, string]>([
    ["shows structured content without a text", { content: [], structuredContent: { b: 1 } }, '{"b": 1}'],
    [
      "shows it behind a text that is another",
      { content: text("Done."), structuredContent: { id: 7 } },
      'Done.\n{"id": 7}',
    ],
    [
      "shows it once where the text is its JSON",
      { content: text('{"b":1,"a":[1]}'), structuredContent: { a: [1], b: 1 } },
      '{"b":1,"a":[1]}',
    ],
    [
      "or has it inside",
      { content: text('Found:\n{"name":"Ada","age":36}'), structuredContent: { name: "Ada", age: 36 } },
      'Found:\n{"name":"Ada","age":36}',
    ],
    ["or is the result that it wraps", { content: text("7"), structuredContent: { result: 7 } }, "7"],
    ["or has an entry for each text", { content: text("1", "2"), structuredContent: { result: [1, 2] } }, "1\n2"],
    ["shows a list", { content: [], structuredContent: [1, { a: 2 }] }, '[1, {"a": 2}]'],
    ["shows a list beside another text", { content: text("two"), structuredContent: [1, 2] }, "two\n[1, 2]"],
    ["and a text", { content: [], structuredContent: "seven" }, '"seven"'],
    ["shows nothing of none", { content: text("a"), structuredContent: null }, "a"],
    ["reads a text that is not a list", { content: "text" }, "text"],
    ["reads a block that is alone", { content: { type: "text", text: "a" } }, "a"],
    ["notes content that it does not know", { content: [{ type: "hologram" }] }, "[hologram, not shown]"],
  ])("%s", (_, result, expected) => {
    expect(readToolResult(result, 100_000)).toMatchObject({ text: expected, isError: false });
  });

  it("never throws, and is an error only where the server says true", () => {
    fc.assert(
      fc.property(someResult, (drawn) => {
        const read = readToolResult(drawn, 1_000);
        expect(typeof read.text).toBe("string");
        expect(typeof read.isError).toBe("boolean");
      }),
    );
    for (const isError of [null, "true", 1, {}])
      expect(readToolResult({ content: [], isError }, 10).isError).toBe(false);
  });
});

describe("readTool()", () => {
  it.each<[unknown, string]>([
    [{ properties: { a: {} } }, '{"type": "object", "properties": {"a": {}}}'],
    [
      { properties: { a: {} }, required: ["a", 1], type: "object" },
      '{"properties": {"a": {}}, "required": ["a"], "type": "object"}',
    ],
    [{ type: null, required: null, properties: [] }, '{"type": "object"}'],
    [{ type: ["object", "null"] }, '{"type": ["object", "null"]}'],
    [null, '{"type": "object", "properties": {}}'],
    [undefined, '{"type": "object", "properties": {}}'],
    ["none", '{"type": "object", "properties": {}}'],
    [{ $schema: "x", type: "object", properties: {} }, '{"$schema": "x", "type": "object", "properties": {}}'],
  ])("reads the schema %j", (inputSchema, expected) => {
    const { definition } = readTool({ name: "a", description: null, inputSchema, annotations: null }, 1_000);
    const body = definition.get("function");
    expect(dumpJson(body instanceof Map ? body.get("parameters")! : null)).toBe(expected);
  });
});
