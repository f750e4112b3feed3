// Runs an agent that speaks the Agent Client Protocol (agentclientprotocol.com, version 1) for one
// session. We are its client: the user's utterances are its prompts, its messages are passed to the
// user, it finds the environment's tools in an MCP server of its ACP session, and a policy answers
// its permission requests. We offer no files and no terminal.
//
//   user ─ utterance ─► session/prompt ─► agent ─ tools ─► environment, over MCP
//     ▲                                     │
//     └──────── text of the turn ◄──────────┘    until the user or a tool ends the episode

import { Readable, Writable } from "node:stream";
import { setTimeout as rest } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { attribute, AttributedError, type Failure, messageOf, type StopReason } from "../../core/index.ts";
import { Program } from "../../programs/index.ts";
import {
  type AcpAgent,
  type AcpClient,
  type AcpLibrary,
  type AcpUpdate,
  type AgentPermissions,
  loadAcp,
} from "./acp-library.ts";
import { type AgentCommandOptions, type AgentRun, exitState, graceMs, Tail } from "../agent-command.ts";
import type { WorldConversation } from "../session-worlds.ts";

export type AcpAgentOptions = AgentCommandOptions & {
  /** URL of the MCP server with the environment's tools. */
  readonly toolsUrl: string;
  readonly permissions: AgentPermissions;
  /** Maximum number of prompts. */
  readonly maxPrompts: number;
  /**
   * Opens the conversation with the user. `onEnd` is called when a tool has ended the episode.
   * Rejects if user or environment fails.
   */
  readonly converse: (onEnd: () => void) => Promise<WorldConversation>;
  /** The limit of the episode that the agent's calls of its model have reached; `null` for none. */
  readonly limit: () => StopReason | null;
  /** Version of this package, as the agent sees it. */
  readonly version: string;
};

/** The path works from both src/ and dist/: agents always start the build output. */
const bridge = fileURLToPath(new URL("../../../dist/gateway/acp/mcp-bridge.js", import.meta.url));

/** Reason why an agent did not finish. `state` completes a sentence about the agent. */
class AgentProblem extends Error {
  readonly code: string;

  constructor(code: string, state: string) {
    super(state);
    this.code = code;
  }
}

/**
 * Runs the agent until the conversation ends, then ends the agent. Rejects only if the agent cannot
 * be started.
 */
export async function runAcpAgent(options: AcpAgentOptions): Promise<AgentRun> {
  const { command, cwd, env, timeoutMs, maxOutputBytes, signal } = options;
  const acp = await loadAcp();
  const program = new Program({ run: { shell: command }, cwd, env, stdio: ["pipe", "pipe", "pipe"] });
  const { child } = program;
  const errors = new Tail(maxOutputBytes);
  const transcript = new Transcript(maxOutputBytes);
  child.stderr?.on("data", (bytes: Buffer) => errors.take(bytes));
  // A broken pipe also ends the connection, which reports it.
  child.stdin?.on("error", () => undefined);
  let exitCode: number | null = null;
  let isEnding = false;
  let startError: Error | null = null;
  let fail: (reason: Error) => void = () => undefined;
  const failed = new Promise<never>((_, reject) => (fail = reject));
  failed.catch(() => undefined);
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
    child.once("error", (error) => {
      startError = error;
      fail(error);
      resolve();
    });
  });
  child.once("exit", (code) => {
    // The code of an agent that we end says nothing about it.
    if (!isEnding) exitCode = code;
    fail(new AgentProblem("program-failed", exitState(code, errors.text())));
  });
  const timer = setTimeout(() => fail(new AgentProblem("timeout", "")), timeoutMs);
  const cancel = (): void => fail(new AgentProblem("cancelled", "it was cancelled"));
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  let problem: AgentProblem | null = null;
  let failure: Failure | null = null;
  let stopReason: StopReason | null = null;
  try {
    const stream = acp.ndJsonStream(Writable.toWeb(child.stdin!), readable(child.stdout!), { maxMessageBytes });
    const app = client(acp, { transcript, permissions: options.permissions, fail });
    const held = app.connectWith(stream, (agent) => converse(agent, acp, { options, transcript, failed }));
    held.catch(() => undefined);
    stopReason = await Promise.race([failed, held]);
  } catch (error) {
    if (error === startError) throw error;
    if (error instanceof AttributedError) failure = error.failure;
    else problem = error instanceof AgentProblem ? error : await closedProblem(failed, error);
  } finally {
    isEnding = true;
    clearTimeout(timer);
    signal.removeEventListener("abort", cancel);
    program.terminate();
    const ended = await Promise.race([closed.then(() => true), rest(graceMs, false, { ref: false })]);
    if (!ended) program.kill();
  }
  const isTimedOut = problem?.code === "timeout";
  return {
    exitCode,
    isTimedOut,
    reward: null,
    stdout: transcript.text(),
    stderr: errors.text(),
    problem: problem === null || isTimedOut ? null : { code: problem.code, state: problem.message },
    failure,
    stopReason,
    isPrompted: true,
  };
}

/** Our side of the protocol: it keeps what the agent reports, and answers its requests. */
function client(
  acp: AcpLibrary,
  given: {
    readonly transcript: Transcript;
    readonly permissions: AgentPermissions;
    readonly fail: (reason: Error) => void;
  },
): AcpClient {
  const { transcript, permissions, fail } = given;
  return acp
    .client({ name: "trainable-agents" })
    .onNotification("session/update", ({ params: { sessionId, update } }) => {
      const problem = transcript.take(sessionId, update);
      if (problem !== null) fail(problem);
    })
    .onRequest("session/request_permission", ({ params: { toolCall, options } }) => {
      const kind = toolCall.kind ?? transcript.kindOf(toolCall.toolCallId) ?? "other";
      const isAllowed = permissions === "all" || permissions.includes(kind);
      const named = (wanted: string) => options.find((one) => one.kind === wanted);
      const option = isAllowed ? (named("allow_once") ?? named("allow_always")) : undefined;
      if (option !== undefined) return { outcome: { outcome: "selected", optionId: option.optionId } };
      const tool = JSON.stringify((toolCall.title ?? "a tool").slice(0, 200));
      const reason = isAllowed
        ? `it offered no way to allow ${tool}`
        : `it asked for permission to use ${tool}, of kind "${kind}"; allow the kind with --agent-permissions, or configure the agent not to use such tools`;
      fail(new AgentProblem("permission-refused", reason));
      return { outcome: { outcome: "cancelled" } };
    });
}

/** Holds the conversation. Resolves with the reason of its end: the user, a tool or a limit. */
async function converse(
  agent: AcpAgent,
  acp: AcpLibrary,
  given: {
    readonly options: AcpAgentOptions;
    readonly transcript: Transcript;
    readonly failed: Promise<never>;
  },
): Promise<StopReason> {
  const { options, transcript, failed } = given;
  const { cwd, toolsUrl, maxPrompts, version } = options;
  /** Awaits a response. An error is a problem of the agent, unlike failures of user and environment. */
  const ask = async <T>(what: string, request: Promise<T>): Promise<T> => {
    try {
      return await request;
    } catch (error) {
      if (error instanceof acp.RequestError) {
        throw new AgentProblem("program-failed", `it answered ${what} with an error: ${rpcMessage(error)}`);
      }
      throw await closedProblem(failed, error);
    }
  };
  let end: () => void = () => undefined;
  const ended = new Promise<null>((resolve) => (end = () => resolve(null)));
  const conversation = await options
    .converse(() => end())
    .catch((error: unknown) => {
      throw attribute(error, "environment");
    });
  const initialized = await ask(
    "initialize",
    agent.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: "trainable-agents", version },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    }),
  );
  if (initialized.protocolVersion !== acp.PROTOCOL_VERSION) {
    const spoken = `it speaks version ${initialized.protocolVersion} of the protocol, not ${acp.PROTOCOL_VERSION}`;
    throw new AgentProblem("program-failed", spoken);
  }
  const takesHttp = initialized.agentCapabilities?.mcpCapabilities?.http === true;
  const { sessionId } = await ask(
    "session/new",
    agent.request("session/new", { cwd, mcpServers: [takesHttp ? overHttp(toolsUrl) : overStdio(toolsUrl)] }),
  );
  transcript.sessionId = sessionId;
  const { guidelines, firstUtterance } = conversation;
  let prompt: readonly string[] = guidelines === "" ? [firstUtterance] : [guidelines, firstUtterance];
  for (let count = 1; conversation.stopReason === null; count++) {
    transcript.begin(prompt.at(-1) ?? "");
    const turn = ask(
      "session/prompt",
      agent.request("session/prompt", {
        sessionId,
        prompt: prompt.map((text) => ({ type: "text" as const, text })),
      }),
    );
    const stopped = await Promise.race([turn, ended]);
    if (stopped === null) {
      // Nothing that the agent says after the end is used.
      await agent.notify("session/cancel", { sessionId });
      await Promise.race([turn.catch(() => null), rest(graceMs, null, { ref: false })]);
      break;
    }
    const limit = conversation.stopReason ?? options.limit();
    if (limit !== null) return limit;
    if (stopped.stopReason === "refusal") throw new AgentProblem("agent-refused", "it refused to answer the user");
    if (stopped.stopReason === "cancelled") {
      throw new AgentProblem("program-failed", "it reported a turn as cancelled that was not cancelled");
    }
    // Handlers of notifications run in order, but may begin after the response has arrived.
    await rest(0);
    const reply = await conversation.reply(transcript.end());
    if (count >= maxPrompts && conversation.stopReason === null) return "max_turns";
    prompt = [reply];
  }
  return conversation.stopReason ?? "tool_ended";
}

/** The problem of an agent whose connection has closed: its exit says more than the broken connection. */
async function closedProblem(failed: Promise<never>, error: unknown): Promise<AgentProblem> {
  try {
    await Promise.race([failed, rest(graceMs / 4, null, { ref: false })]);
  } catch (exit) {
    if (exit instanceof AgentProblem) return exit;
  }
  return new AgentProblem("program-failed", `it broke the connection: ${messageOf(error)}`);
}

function overHttp(url: string): object {
  return { type: "http", name: "environment", url, headers: [] };
}

/** Every agent starts MCP servers as programs; ours passes messages on to the URL. */
function overStdio(url: string): object {
  const env = [{ name: "TRAINABLE_AGENTS_MCP_URL", value: url }];
  return { name: "environment", command: process.execPath, args: [bridge], env };
}

const maxMessageBytes = 16 * 2 ** 20;
/** Maximum number of tool calls whose kind is remembered for a request for permission. */
const mostKinds = 10_000;

/** The messages in the agent's output; other lines, such as its logs, are left out. */
function readable(output: Readable): ReadableStream<Uint8Array> {
  let unread: Buffer[] = [];
  let size = 0;
  const lines = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      const end = bytes.lastIndexOf(10) + 1;
      if (end > 0) {
        const whole = Buffer.concat([...unread, bytes.subarray(0, end)]).toString("utf8");
        for (const line of whole.split("\n")) if (isMessage(line)) controller.enqueue(Buffer.from(`${line}\n`));
        [unread, size] = [[], 0];
      }
      unread.push(Buffer.from(bytes.subarray(end)));
      size += bytes.length - end;
      if (size > maxMessageBytes) controller.error(new Error(`a line is longer than ${maxMessageBytes} bytes`));
    },
  });
  return (Readable.toWeb(output) as ReadableStream<Uint8Array>).pipeThrough(lines);
}

function isMessage(line: string): boolean {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && "jsonrpc" in value && ("method" in value || "id" in value);
  } catch {
    return false;
  }
}

/** The message of an error response, with the details that agents put into its data. */
function rpcMessage(error: unknown): string {
  const { data } = (typeof error === "object" && error !== null ? error : {}) as { readonly data?: unknown };
  const details = data === undefined || data === null ? "" : ` ${JSON.stringify(data)}`;
  return `${messageOf(error)}${details}`.slice(0, 1000);
}

/** The conversation as lines for people, and the agent's message of the current turn. */
class Transcript {
  readonly #tail: Tail;
  readonly #maxLength: number;
  /** The session of the conversation; an agent may have others of its own. */
  sessionId: string | null = null;
  readonly #kinds = new Map<string, string>();
  readonly #parts: string[] = [];
  #length = 0;
  /** True if the next text begins a new paragraph, because something else happened since the last. */
  #isCut = false;

  constructor(maxBytes: number) {
    this.#tail = new Tail(maxBytes);
    this.#maxLength = maxBytes;
  }

  /** Begins a turn of the agent. */
  begin(utterance: string): void {
    this.#parts.length = 0;
    this.#length = 0;
    this.#isCut = false;
    this.#line(`user: ${utterance}`);
  }

  /**
   * Keeps an update of the turn; those of other sessions are left out. Returns the problem if the
   * message is too long.
   */
  take(sessionId: string, update: AcpUpdate): AgentProblem | null {
    if (sessionId !== this.sessionId) return null;
    if (update.sessionUpdate === "agent_message_chunk") {
      const { content } = update;
      if (this.#isCut && this.#parts.length > 0) this.#parts.push("\n\n");
      this.#isCut = false;
      const text = content.type === "text" ? (content.text ?? "") : `[${content.type}]`;
      this.#length += text.length;
      if (this.#length > this.#maxLength) {
        return new AgentProblem("program-failed", `its message is longer than ${this.#maxLength} characters`);
      }
      this.#parts.push(text);
      return null;
    }
    this.#isCut = true;
    if (update.sessionUpdate !== "tool_call" && update.sessionUpdate !== "tool_call_update") return null;
    const { toolCallId, title, kind, status } = update;
    if (typeof kind === "string" && this.#kinds.size < mostKinds) this.#kinds.set(toolCallId, kind);
    if (typeof title === "string") this.#line(`tool: ${title}`);
    if (status === "failed") this.#line(`tool failed: ${toolCallId}`);
    return null;
  }

  kindOf(toolCallId: string): string | undefined {
    return this.#kinds.get(toolCallId);
  }

  /** Ends the turn; returns its message. */
  end(): string {
    const message = this.#parts.join("");
    this.#line(`agent: ${message}`);
    return message;
  }

  text(): string {
    return this.#tail.text();
  }

  #line(text: string): void {
    this.#tail.take(Buffer.from(`${text}\n`));
  }
}
