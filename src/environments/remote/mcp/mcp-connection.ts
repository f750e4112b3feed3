// One conversation with one MCP server: initialized, its tools read, its requests answered by policy, its notifications counted.
// Every fault of server or transport leaves as a typed one; a call that the server refuses for its arguments (JSON-RPC -32602)
// is the policy's, and an answer.

import { AttributedError, messageOf } from "../../../core/failure.ts";
import { type Tool, toolFromDefinition } from "../../../core/message.ts";
import { parseJson } from "../../../python-semantics/json/parse-json.ts";
import { fromForeign } from "../../../python-semantics/json/plain.ts";
import { remoteFault, type RemoteFaultCode } from "../index.ts";
import { anyResult, type McpClient, type McpLibrary, type McpTransport } from "./mcp-library.ts";
import { asRecord } from "./result-text.ts";

export type McpLimits = {
  /** Messages of the server in one session: answers, logs, progress. */
  readonly maxMessages: number;
  readonly maxTools: number;
  /** Values and characters of a definition, or of structured content. */
  readonly maxSize: number;
};

export type ConnectionOptions = {
  readonly library: McpLibrary;
  readonly transport: McpTransport;
  /** As in messages: `the MCP server "npx server"`. */
  readonly title: string;
  readonly elicitation: ElicitationPolicy;
  readonly limits: McpLimits;
  /** The version of this package. */
  readonly version: string;
  readonly signal: AbortSignal;
  /** The episode that a server of ours is to open; `null`: none, or it is another. */
  readonly own: { readonly task: string; readonly seed: number } | null;
  /** Sends what ends the session, before the connection closes. */
  readonly endSession?: () => Promise<void>;
  /** What the server said last, for people. */
  readonly lastWords?: () => string;
};

/** Under this name a server of ours says so, and a client of ours; `_meta` keys begin with it. */
export const ownExtension = "trainable-agents";

/** The adapter's deadline comes first. */
const longestMs = 2 ** 31 - 1;

export class McpConnection {
  readonly tools: readonly Tool[];
  readonly instructions: string;
  /** What a server of ours says of itself; `null`: it is another. */
  readonly own: Readonly<Record<string, unknown>> | null;
  readonly #link: Link;
  readonly #options: ConnectionOptions;

  private constructor(link: Link, tools: readonly Tool[], options: ConnectionOptions) {
    this.tools = tools;
    this.#link = link;
    this.#options = options;
    this.instructions = link.client.getInstructions() ?? "";
    const { experimental } = asRecord(link.client.getServerCapabilities()) ?? {};
    this.own = asRecord(asRecord(experimental)?.[ownExtension]);
  }

  /** Rejects with a typed fault, and leaves nothing open. */
  static async open(options: ConnectionOptions): Promise<McpConnection> {
    const link = new Link(options);
    try {
      await link.connect(options.signal);
      return new McpConnection(link, await readTools(link, options), options);
    } catch (error) {
      await link.close().catch(() => undefined);
      throw error;
    }
  }

  /** Answers, or throws a fault; {@link RefusedCall} for arguments that the server does not take. */
  request(method: string, params: object, options: { readonly signal: AbortSignal }): Promise<unknown> {
    return this.#link.request(method, params, options.signal);
  }

  /** The tools that the server has by now, when it has said that they changed since this was asked; else `null`. */
  async changedTools(signal: AbortSignal): Promise<readonly Tool[] | null> {
    if (!this.#link.toolsChanged) return null;
    this.#link.toolsChanged = false;
    return readTools(this.#link, { ...this.#options, signal });
  }

  get isOpen(): boolean {
    return this.#link.isOpen;
  }

  close(): Promise<void> {
    return this.#link.close();
  }
}

/** The server does not take the arguments, or knows no such tool. */
export class RefusedCall extends Error {}

class Link {
  readonly client: McpClient;
  readonly #options: ConnectionOptions;
  readonly #broken: Promise<never>;
  #break: (fault: AttributedError) => void = () => undefined;
  #messages = 0;
  #hasConnected = false;
  #closing: Promise<void> | null = null;
  isOpen = false;
  toolsChanged = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    const { library, elicitation, version } = options;
    this.#broken = new Promise<never>((_, reject) => {
      this.#break = reject;
    });
    this.#broken.catch(() => undefined);
    const capabilities = { elicitation: { form: {} }, experimental: { [ownExtension]: options.own ?? {} } };
    this.client = new library.Client({ name: "trainable-agents", version }, { capabilities });
    this.client.setRequestHandler("elicitation/create", async ({ params }) => answerElicitation(params, elicitation));
    this.client.setNotificationHandler("notifications/tools/list_changed", () => {
      this.toolsChanged = true;
    });
    Object.assign(this.client, {
      onclose: () => this.#end(),
      onerror: (error: Error) => {
        // Everything else is told by the request that it happened to.
        if (isGarbage(error)) this.#break(this.#fault("remote-invalid", "read an answer of", error));
      },
    });
  }

  async connect(signal: AbortSignal): Promise<void> {
    const { transport } = this.#options;
    this.#countMessages(transport);
    await this.#within("connect to", signal, this.client.connect(transport, { signal, timeout: longestMs }));
    this.#hasConnected = true;
    this.isOpen = true;
  }

  /** Logs and progress, which nobody reads, end here: a server that sends them without end costs little until it has sent too many. */
  #countMessages(transport: McpTransport): void {
    const { maxMessages } = this.#options.limits;
    let handler: McpTransport["onmessage"];
    const counted: McpTransport["onmessage"] = (message, extra) => {
      this.#messages++;
      if (this.#messages === maxMessages) {
        this.#break(this.#fault("remote-invalid", "listen to", `it sent ${maxMessages} messages`));
      }
      const isUnread = message.method === "notifications/message" || message.method === "notifications/progress";
      if (!isUnread && this.#messages < maxMessages) handler?.(message, extra);
    };
    // The library reads it once, before it sets its own.
    Object.defineProperty(transport, "onmessage", {
      get: () => (handler === undefined ? undefined : counted),
      set: (given: McpTransport["onmessage"]) => {
        handler = given;
      },
    });
  }

  request(method: string, params: object, signal: AbortSignal): Promise<unknown> {
    const options = { signal, timeout: longestMs };
    const isOwn = method.startsWith(`${ownExtension}/`);
    const answer = isOwn
      ? this.client.request({ method, params }, anyResult, options)
      : this.client.request({ method, params }, options);
    return this.#within("call", signal, answer);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.isOpen = false;
    try {
      await this.#options.endSession?.();
    } finally {
      await this.client.close().catch(() => undefined);
      await this.#options.transport.close().catch(() => undefined);
    }
  }

  #end(): void {
    this.isOpen = false;
    // Before that, what it was opened with says why.
    if (!this.#hasConnected) return;
    const said = this.#options.lastWords?.() ?? "";
    this.#break(this.#fault("remote-lost", "call", `it has ended${said === "" ? "" : `; its last words: ${said}`}`));
  }

  async #within<T>(what: string, signal: AbortSignal, answer: Promise<T>): Promise<T> {
    try {
      return await Promise.race([answer, this.#broken]);
    } catch (error) {
      answer.catch(() => undefined);
      if (signal.aborted) throw signal.reason;
      throw this.#attributed(error, what);
    }
  }

  #attributed(error: unknown, what: string): Error {
    if (error instanceof AttributedError) return error;
    const { code, data } = (asRecord(error) ?? {}) as { readonly code?: unknown; readonly data?: unknown };
    if (code === -32602 && this.#hasConnected) return new RefusedCall(messageOf(error));
    // Numbers are the server's JSON-RPC errors, names the library's.
    if (typeof code === "number")
      return this.#fault("remote-error", what, `JSON-RPC error ${code}: ${messageOf(error)}`);
    return this.#fault(this.#codeOf(error, code, asRecord(data)?.["status"]), what, error);
  }

  #codeOf(error: unknown, code: unknown, status: unknown): RemoteFaultCode {
    if (typeof status === "number") {
      if (status === 404 && this.#hasConnected) return "remote-expired";
      return status === 429 || status === 503 ? "remote-capacity" : "remote-error";
    }
    if (isGarbage(error) || code === "INVALID_RESULT" || code === "CLIENT_HTTP_UNEXPECTED_CONTENT") {
      return "remote-invalid";
    }
    if (code === "REQUEST_TIMEOUT") return "remote-timeout";
    return this.#hasConnected ? "remote-lost" : "remote-unreachable";
  }

  #fault(code: RemoteFaultCode, what: string, error: unknown): AttributedError {
    const remedy = code === "remote-unreachable" ? "; see that it runs, and correct --env" : "";
    const { cause } = (asRecord(error) ?? {}) as { readonly cause?: unknown };
    const below = cause === undefined || cause === null ? "" : ` (${messageOf(cause)})`;
    const reason = messageOf(error).replace(/\.$/, "");
    const said = code === "remote-unreachable" ? (this.#options.lastWords?.() ?? "") : "";
    const words = said === "" ? "" : `; its last words: ${said}`;
    const message = `Cannot ${what} ${this.#options.title}: ${reason}${below}${words}${remedy}.`;
    return remoteFault(code, message, { cause: error });
  }
}

/** What does not parse, or is no message. */
const isGarbage = (error: unknown): boolean =>
  error instanceof Error && /^(SyntaxError|TypeError|\$?ZodError)$/.test(error.name) && !/fetch/.test(error.message);

async function readTools(link: Link, options: ConnectionOptions): Promise<readonly Tool[]> {
  const { limits, title, signal } = options;
  const capabilities = asRecord(link.client.getServerCapabilities()) ?? {};
  if (capabilities["tools"] === undefined) return [];
  const tools: Tool[] = [];
  let cursor: unknown;
  do {
    const page = asRecord(await link.request("tools/list", cursor === undefined ? {} : { cursor }, signal)) ?? {};
    const listed = Array.isArray(page["tools"]) ? (page["tools"] as readonly unknown[]) : [];
    if (tools.length + listed.length > limits.maxTools || (listed.length === 0 && page["nextCursor"] !== undefined)) {
      throw remoteFault("remote-invalid", `Cannot list the tools of ${title}: at most ${limits.maxTools} are taken.`);
    }
    tools.push(...listed.map((tool) => readTool(tool, title, limits)));
    cursor = page["nextCursor"];
  } while (cursor !== undefined && cursor !== null);
  return tools;
}

function readTool(value: unknown, title: string, { maxSize }: McpLimits): Tool {
  try {
    const { name, description, inputSchema, _meta } = asRecord(value) ?? {};
    const exact = asRecord(_meta)?.[`${ownExtension}/definition`];
    if (typeof exact === "string" && exact.length <= maxSize) {
      const definition = parseJson(exact);
      if (definition instanceof Map) return toolFromDefinition(definition);
    }
    const body = { name, ...(typeof description === "string" ? { description } : {}), parameters: inputSchema };
    const definition = fromForeign({ type: "function", function: body }, { maxSize });
    if (definition instanceof Map) return toolFromDefinition(definition);
    throw new TypeError("it is no object.");
  } catch (error) {
    throw remoteFault("remote-invalid", `Cannot read a tool of ${title}: ${messageOf(error)}`, { cause: error });
  }
}

// What a server is answered that asks the person in front of the client for something. There is none: by policy every request is
// declined, or answered with the defaults that its schema has. A policy, because either changes what tools do.

/** "decline" says no. "accept-defaults" fills a form with its defaults, and declines one that requires more, or opens a page. */
export type ElicitationPolicy = "decline" | "accept-defaults";

type Answer = { readonly action: "decline" } | { readonly action: "accept"; readonly content: object };

const decline: Answer = { action: "decline" };

function answerElicitation(params: unknown, policy: ElicitationPolicy): Answer {
  const { mode = "form", requestedSchema } = asRecord(params) ?? {};
  const schema = asRecord(requestedSchema);
  if (policy === "decline" || mode !== "form" || schema === null) return decline;
  const entries = Object.entries(asRecord(schema["properties"]) ?? {}).flatMap(([name, property]) => {
    const initial = asRecord(property)?.["default"];
    return initial === undefined ? [] : [[name, initial] as const];
  });
  const content = Object.fromEntries(entries);
  const required = Array.isArray(schema["required"]) ? (schema["required"] as readonly unknown[]) : [];
  const isWhole = required.every((name) => typeof name === "string" && Object.hasOwn(content, name));
  return isWhole ? { action: "accept", content } : decline;
}
