// One connection to one MCP server: it initializes, reads the tools, answers the server's requests
// by policy, and counts its notifications. Every fault of the server or transport is thrown as a
// typed fault; a call that the server refuses for its arguments (JSON-RPC -32602) is the policy's
// mistake, and an answer.

import { AttributedError, messageOf } from "../../../core/failure.ts";
import { type Tool, toolParameters } from "../../../core/message.ts";
import { toPlain } from "../../../python-semantics/json/plain.ts";
import { faultOfHttp, remoteFault, type RemoteFaultCode } from "../index.ts";
import { anyResult, type McpClient, type McpEra, type McpLibrary, type McpTransport } from "./mcp-library.ts";
import { type OddMessages, rawResult, readTool, readToolPage } from "./odd-messages.ts";
import { asRecord } from "./result-text.ts";

export type McpLimits = {
  /** Maximum number of messages from the server in one session: answers, logs, progress. */
  readonly maxMessages: number;
  readonly maxTools: number;
  /** Maximum number of values and of characters in a definition, or in structured content. */
  readonly maxSize: number;
};

export type ConnectionOptions = {
  readonly library: McpLibrary;
  readonly transport: McpTransport;
  /** Reads the messages that the transport delivers. */
  readonly odd: OddMessages;
  /** Revision that the server speaks; `null` to ask the server. */
  readonly era: McpEra | null;
  /**
   * Time in milliseconds that a process may stay silent before it counts as a server of an older
   * revision.
   */
  readonly probeMs: number;
  /** Receives a notice for people: a malformed tool that is skipped. */
  readonly onNotice: (message: string) => void;
  /** Name of the server in messages: `the MCP server "npx server"`. */
  readonly title: string;
  readonly elicitation: ElicitationPolicy;
  readonly limits: McpLimits;
  /** Version of this package. */
  readonly version: string;
  readonly signal: AbortSignal;
  /** The episode that an `env-server` is to open; `null` for none, or for any other server. */
  readonly own: { readonly task: string; readonly seed: number } | null;
  /** Receives the handle to report transport faults to. Default: faults are not reported. */
  readonly onLink?: (link: { readonly fail: (error: unknown) => void }) => void;
  /** Sends the request that ends the session, before the connection closes. */
  readonly endSession?: () => Promise<void>;
  /** The server's last output, for people. */
  readonly lastOutput?: () => string;
};

/** Name under which an `env-server` and its client identify themselves; `_meta` keys begin with it. */
export const ownExtension = "trainable-agents";

/** Longer than any deadline of the adapter, which comes first. */
const longestMs = 2 ** 31 - 1;
/** Timeout of the request for notifications. */
const listenMs = 5_000;

export class McpConnection {
  readonly tools: readonly Tool[];
  readonly instructions: string;
  /** An `env-server`'s description of itself; `null` for any other server. */
  readonly own: Readonly<Record<string, unknown>> | null;
  /** Revision that the server speaks. */
  readonly era: McpEra;
  readonly #link: Link;
  readonly #options: ConnectionOptions;

  private constructor(link: Link, tools: readonly Tool[], options: ConnectionOptions) {
    this.tools = tools;
    this.#link = link;
    this.#options = options;
    this.instructions = link.client.getInstructions() ?? "";
    this.era =
      link.client.getProtocolEra() === "modern"
        ? { kind: "modern", discover: link.client.getDiscoverResult() }
        : { kind: "legacy" };
    const { experimental } = asRecord(link.client.getServerCapabilities()) ?? {};
    this.own = asRecord(asRecord(experimental)?.[ownExtension]);
  }

  /** Rejects with a typed fault and leaves nothing open. */
  static async open(options: ConnectionOptions): Promise<McpConnection> {
    const link = new Link(options);
    options.onLink?.({ fail: (error) => link.fail(error) });
    try {
      await link.connect(options.signal);
      return new McpConnection(link, await readTools(link, options), options);
    } catch (error) {
      await link.close().catch(() => undefined);
      throw error;
    }
  }

  /**
   * The result of a tool as the server sent it. Throws a fault, or a {@link RefusedCall} for
   * arguments that the server does not accept.
   */
  async callTool(
    params: { readonly name: string; readonly arguments: unknown; readonly _meta?: object },
    { signal }: { readonly signal: AbortSignal },
  ): Promise<unknown> {
    const tool = this.tools.find(({ name }) => name === params.name);
    return rawResult(await this.#link.call(params, tool ?? null, signal));
  }

  /**
   * The answer to a request. Throws a fault, or a {@link RefusedCall} for parameters that the
   * server does not accept.
   */
  request(method: string, params: object, options: { readonly signal: AbortSignal }): Promise<unknown> {
    return this.#link.request(method, params, options.signal);
  }

  /**
   * The server's current tools if it has announced a change since the last call of this method;
   * `null` otherwise.
   */
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

/** The server does not accept the arguments, or does not know the tool. */
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
    const { library, elicitation, version, era, probeMs, transport, odd } = options;
    this.#broken = new Promise<never>((_, reject) => {
      this.#break = reject;
    });
    this.#broken.catch(() => undefined);
    const capabilities = { elicitation: { form: {} }, experimental: { [ownExtension]: options.own ?? {} } };
    // A silent process may be a server of an older revision; a silent HTTP server is at fault.
    const probe = "pid" in transport ? { probe: { timeoutMs: probeMs } } : {};
    const versionNegotiation = { mode: era === null ? "auto" : era.kind === "legacy" ? "legacy" : "auto", ...probe };
    this.client = new library.Client({ name: "trainable-agents", version }, { capabilities, versionNegotiation });
    const send = transport.send.bind(transport);
    transport.send = (message, given) => {
      odd.sent(message);
      return send(message, given);
    };
    this.client.setRequestHandler("elicitation/create", async ({ params }) => answerElicitation(params, elicitation));
    this.client.setNotificationHandler("notifications/tools/list_changed", () => {
      this.toolsChanged = true;
    });
    Object.assign(this.client, {
      onclose: () => this.#end(),
      onerror: (error: Error) => {
        // Any other error is reported by the request that it happened to.
        if (isGarbage(error)) this.#break(this.#fault("remote-invalid", "read an answer of", error));
      },
    });
  }

  async connect(signal: AbortSignal): Promise<void> {
    const { transport, era } = this.#options;
    this.#countMessages(transport);
    const options = { signal, timeout: longestMs, ...(era === null ? {} : { prior: era }) };
    await this.#within("connect to", signal, this.client.connect(transport, options));
    this.#hasConnected = true;
    this.isOpen = true;
    const { tools } = asRecord(this.client.getServerCapabilities()) ?? {};
    if (this.client.getProtocolEra() !== "modern" || asRecord(tools)?.["listChanged"] !== true) return;
    // Without notifications the tools stay as first listed; nothing else depends on them.
    const listening = this.client.listen({ toolsListChanged: true }, { signal, timeout: listenMs });
    await listening.then(
      () => undefined,
      () => undefined,
    );
  }

  /**
   * Reports that the transport failed while it read a body: the connection cannot be trusted any
   * more.
   */
  fail(error: unknown): void {
    this.#break(this.#attributed(error, "read an answer of") as AttributedError);
  }

  /**
   * Drops logs and progress, which no one reads: a server that floods the client with them costs
   * little before it reaches the limit.
   */
  #countMessages(transport: McpTransport): void {
    const { limits, odd } = this.#options;
    const { maxMessages } = limits;
    let handler: McpTransport["onmessage"];
    const counted: McpTransport["onmessage"] = (given, extra) => {
      this.#messages++;
      if (this.#messages === maxMessages) {
        this.#break(this.#fault("remote-invalid", "listen to", `it sent ${maxMessages} messages`));
      }
      const isUnread = given["method"] === "notifications/message" || given["method"] === "notifications/progress";
      if (isUnread || this.#messages >= maxMessages) return;
      // HTTP messages were read before the library checked them.
      const message = "pid" in transport ? odd.read(given) : given;
      if (message !== null) handler?.(message, extra);
    };
    // The library reads this property once, before it sets its own handler.
    Object.defineProperty(transport, "onmessage", {
      get: () => (handler === undefined ? undefined : counted),
      set: (given: McpTransport["onmessage"]) => {
        handler = given;
      },
    });
  }

  request(method: string, params: object, signal: AbortSignal): Promise<unknown> {
    const answer = this.client.request({ method, params }, anyResult, { signal, timeout: longestMs });
    return this.#within("call", signal, answer);
  }

  /** A page of tools; an empty page if the server does not know the method. */
  listTools(params: object, signal: AbortSignal): Promise<unknown> {
    const request = { method: "tools/list", params };
    const answer = this.client.request(request, anyResult, { signal, timeout: longestMs }).catch((error: unknown) => {
      if (asRecord(error)?.["code"] === -32601) return { tools: [] };
      throw error;
    });
    return this.#within("call", signal, answer);
  }

  /** `tool`: the definition as listed; `null` if it was not listed. */
  call(params: object, tool: Tool | null, signal: AbortSignal): Promise<unknown> {
    const inputSchema = tool === null ? {} : toPlain(toolParameters(tool));
    const toolDefinition = { name: tool?.name ?? "", inputSchema };
    const answer = this.client.callTool(params, { signal, timeout: longestMs, toolDefinition });
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
    // An end before that is reported by the call that opened the connection.
    if (!this.#hasConnected) return;
    const said = this.#options.lastOutput?.() ?? "";
    this.#break(this.#fault("remote-lost", "call", `it has ended${said === "" ? "" : `; its last output: ${said}`}`));
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
    const known = attributedIn(error);
    if (known !== null) return known;
    const { code, data } = (asRecord(error) ?? {}) as { readonly code?: unknown; readonly data?: unknown };
    if (code === -32602 && this.#hasConnected) return new RefusedCall(messageOf(error));
    // Numeric codes are the server's JSON-RPC errors, names are the library's.
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
    const said = code === "remote-unreachable" ? (this.#options.lastOutput?.() ?? "") : "";
    const words = said === "" ? "" : `; its last output: ${said}`;
    const message = `Cannot ${what} ${this.#options.title}: ${reason}${below}${words}${remedy}.`;
    return remoteFault(code, message, { cause: error });
  }
}

/** True for input that does not parse or is not a message. */
const isGarbage = (error: unknown): boolean =>
  error instanceof Error &&
  /^(SyntaxError|TypeError|RangeError|\$?ZodError)$/.test(error.name) &&
  !/fetch/.test(error.message);

/**
 * A fault of our own HTTP client, found among the causes of the library's error; `null` if there is
 * none.
 */
function attributedIn(error: unknown): Error | null {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at instanceof AttributedError) return faultOfHttp(at) as Error;
  }
  return null;
}

/** Maximum number of pages of tools; a server that sends more is in a loop. */
const mostPages = 1000;

/**
 * The tools of all pages. A tool that cannot be called, or whose name is taken, is skipped with a
 * notice.
 */
async function readTools(link: Link, options: ConnectionOptions): Promise<readonly Tool[]> {
  const { limits, title, signal, onNotice } = options;
  const tools = new Map<string, Tool>();
  const cursors = new Set<string>();
  let listed = 0;
  for (let cursor: string | null = null; cursors.size < mostPages;) {
    const page = readToolPage(await link.listTools(cursor === null ? {} : { cursor }, signal));
    listed += page.tools.length;
    if (listed > limits.maxTools) {
      throw remoteFault(
        "remote-invalid",
        `Cannot list the tools of ${title}: there are more than ${limits.maxTools}, the maximum.`,
      );
    }
    for (const given of page.tools) {
      const name = nameOf(given);
      try {
        const tool = readTool(given, limits.maxSize);
        if (tools.has(tool.name)) throw new TypeError("another tool has its name");
        tools.set(tool.name, tool);
      } catch (error) {
        onNotice(`Notice: tool ${name} of ${title} is left out: ${messageOf(error).replace(/\.$/, "")}.`);
      }
    }
    cursor = page.nextCursor;
    if (cursor === null || cursors.has(cursor)) break;
    cursors.add(cursor);
  }
  return [...tools.values()];
}

const nameOf = (tool: unknown): string => {
  const name = asRecord(tool)?.["name"];
  return typeof name === "string" ? JSON.stringify(name.slice(0, 100)) : "without a name";
};

// Answers to a server that requests input from the person using the client. No such person exists
// here: by policy every request is declined, or answered with the defaults in its schema. It is a
// policy because either choice changes the tools' behaviour.

/**
 * "decline" declines every request. "accept-defaults" fills a form with its defaults; it declines a
 * form that requires more, and a request to open a page.
 */
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
