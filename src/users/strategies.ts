// Strategies by which a model finds the user's next line: at once, after a thought, after a check,
// or after a reflection on a refused line. Each has two versions: a sane one, and one that
// reproduces the τ-bench reference, quirks included.

import { type ChatText, splitReasoning } from "../chat-models/index.ts";
import type { AttributedError } from "../core/index.ts";
import { pythonRepr, pythonStrip } from "../python-semantics/index.ts";
import { stopMarker, userFailure } from "./conversation.ts";
import type { UserPrompts } from "./prompts.ts";

/** "sane" behaves sensibly; "upstream" behaves like the τ-bench reference, quirks included. */
export type UserCompat = "sane" | "upstream";

/** Parses a reply. `isTruncated`: true if it ended at the length limit. */
type ReadReply<T> = (reply: string, isTruncated: boolean) => T;

/** A strategy's view of one episode. */
export type Conversation = {
  readonly instruction: string | null;
  /** Messages that the model is shown. The strategy appends those that it must remember. */
  readonly messages: ChatText[];
  readonly prompts: UserPrompts;
  /** Calls the model; `read` parses the reply, and its retryable failures are retried. */
  readonly ask: <T>(messages: readonly ChatText[], read: ReadReply<T>) => Promise<T>;
};

/** Method of finding the next line. A frozen value: the state of an episode is in its conversation. */
export type UserStrategy = {
  readonly name: string;
  readonly systemPrompt: (prompts: UserPrompts, instruction: string | null) => string;
  readonly nextLine: (conversation: Conversation) => Promise<string>;
  /**
   * The message that shows the model one of its earlier lines when a conversation is resumed: only
   * the lines are recorded, so its thoughts are lost.
   */
  readonly asRemembered: (line: string) => string;
  /**
   * Number of conversations that are begun without an instruction and discarded before the real one
   * (a habit of upstream's constructors).
   */
  readonly rehearsals: number;
};

/** A strategy without its own thoughts. Upstream takes replies untrimmed, thinking included. */
function strategy(
  name: string,
  compat: UserCompat,
  nextLine: (conversation: Conversation, read: ReadReply<string>) => Promise<string>,
): UserStrategy {
  const read = compat === "upstream" ? readRaw : readUtterance;
  return {
    name,
    systemPrompt: (prompts, instruction) => prompts.system(instruction),
    rehearsals: compat === "upstream" ? 1 : 0,
    asRemembered: (line) => line,
    nextLine: (conversation) => nextLine(conversation, read),
  };
}

function remember({ messages }: Conversation, line: string): string {
  messages.push({ role: "assistant", content: line });
  return line;
}

/** One call per line. */
export const llmStrategy = (compat: UserCompat): UserStrategy =>
  strategy("llm", compat, async (conversation, read) =>
    remember(conversation, await conversation.ask(conversation.messages, read)),
  );

/**
 * One call whose reply holds a thought and the line. The upstream version passes the thought and
 * the heading on to the agent, hangs up even when only a thought names the stop marker, and fails
 * on a reply that it cannot read; ours sends only the line and retries. Both remember the whole
 * reply.
 */
export const reactStrategy = (compat: UserCompat): UserStrategy => ({
  ...strategy("react", compat, async (conversation) => {
    const { messages, ask } = conversation;
    if (compat === "upstream") return readReactAsUpstream(remember(conversation, await ask(messages, readRaw)));
    const { reply, line } = await ask(messages, (text, isTruncated) => {
      const utterance = readUtterance(text, isTruncated);
      return { reply: utterance, line: readReact(utterance) };
    });
    remember(conversation, reply);
    return line;
  }),
  systemPrompt: (prompts, instruction) => prompts.reactSystem(instruction),
  // Upstream's base constructor and its own both start a conversation.
  rehearsals: compat === "upstream" ? 2 : 0,
  asRemembered: (line) => `User Response:\n${line}`,
});

/** The text under the only heading `User Response:`. */
function readReact(reply: string): string {
  const parts = reply.split(/^[ \t*#]*User Response:[ \t*]*/m);
  const line = parts[1]?.trim() ?? "";
  if (parts.length === 2 && line !== "") return line;
  throw malformedReact(reply, `it has ${parts.length - 1} headings "User Response:", expected one with text below it`);
}

function readReactAsUpstream(reply: string): string {
  if (reply.includes(stopMarker)) return stopMarker;
  for (const heading of ["Thought:", "User Response:"]) {
    const parts = reply.split(heading);
    if (parts.length === 2) return pythonStrip(parts[1] ?? "");
    if (parts.length > 2) {
      const problem = `it has ${parts.length - 1} headings "${heading}", expected one`;
      throw malformedReact(reply, problem, "ValueError: too many values to unpack (expected 2)");
    }
  }
  throw malformedReact(reply, 'it has no heading "User Response:"', `ValueError: Invalid response format: ${reply}`);
}

/** `cause`: the error that the reference raises in this case. */
function malformedReact(reply: string, problem: string, cause: string = excerpt(reply)): AttributedError {
  return userFailure("malformed-reply", `Cannot read the line of user "react" out of its reply: ${problem}.`, cause);
}

const excerpt = (reply: string): string => JSON.stringify(reply.slice(0, 300));

const maxAttempts = 3;

/**
 * A checker reads each line before it is sent; a refused one is regenerated, up to three times in
 * total. When all are refused, the last line is sent. Upstream then forgets it, so that the model
 * sees two messages of the agent in a row, and shows its checker the message object instead of its
 * text; ours remembers the sent line.
 */
export const verifyStrategy = (compat: UserCompat): UserStrategy =>
  strategy("verify", compat, async (conversation, read) => {
    const { messages, ask } = conversation;
    for (let attempt = 1; ; attempt++) {
      const line = await ask(messages, read);
      const response = compat === "upstream" ? messageObject(line) : line;
      const isAccepted = await mayBeSent(conversation, { messages, response, compat });
      if (isAccepted || (attempt === maxAttempts && compat === "sane")) remember(conversation, line);
      if (isAccepted || attempt === maxAttempts) return line;
    }
  });

/** A message as printed by upstream's client library. */
const messageObject = (content: string): string =>
  `Message(content=${pythonRepr(content)}, role='assistant', tool_calls=None, function_call=None)`;

/**
 * A checker reads each line before it is sent; after a refusal the model criticises the line and
 * writes a better one, which is sent. The model remembers only the sent line.
 */
export const reflectionStrategy = (compat: UserCompat): UserStrategy =>
  strategy("reflection", compat, async (conversation, read) => {
    if (compat === "upstream") return reflectAsUpstream(conversation);
    const { messages, ask } = conversation;
    const draft = await ask(messages, read);
    const isAccepted = await mayBeSent(conversation, { messages, response: draft, compat });
    return remember(conversation, isAccepted ? draft : await betterLine(conversation, draft, compat));
  });

/**
 * Upstream mistakes the better line for an utterance of the agent, completes once more, and has
 * that checked; if it is refused again, the first line is sent after all. Both replies stay in the
 * conversation, whichever was sent.
 */
async function reflectAsUpstream(conversation: Conversation): Promise<string> {
  const { messages, ask } = conversation;
  const compat = "upstream";
  const shown = [...messages];
  const first = remember(conversation, await ask(shown, readRaw));
  if (await mayBeSent(conversation, { messages: shown, response: first, compat })) return first;
  shown.push({ role: "user", content: await betterLine({ ...conversation, messages: shown }, first, compat) });
  const second = remember(conversation, await ask(shown, readRaw));
  return (await mayBeSent(conversation, { messages: shown, response: second, compat })) ? second : first;
}

async function betterLine(conversation: Conversation, response: string, compat: UserCompat): Promise<string> {
  const { instruction, messages, prompts, ask } = conversation;
  const question = prompts.reflect({ instruction, transcript: transcriptOf(messages, compat), response });
  const request = [{ role: "user", content: question }] as const;
  // An unreadable reply ends upstream's run; ours retries.
  return compat === "upstream" ? readBetterAsUpstream(await ask(request, readRaw)) : ask(request, readBetter);
}

/** The text under the last heading `Response:`. */
function readBetter(reply: string, isTruncated: boolean): string {
  const parts = readUtterance(reply, isTruncated).split(/^[ \t*#]*Response:[ \t*]*/m);
  const line = parts.slice(1).at(-1)?.trim() ?? "";
  if (line !== "") return line;
  throw malformedReflection('there is no text below a heading "Response:", expected a line', excerpt(reply));
}

function readBetterAsUpstream(reply: string): string {
  const parts = reply.split("Response:");
  if (parts.length === 2) return pythonStrip(parts[1] ?? "");
  const cause = `ValueError: ${parts.length === 1 ? "not enough" : "too many"} values to unpack (expected 2${parts.length === 1 ? ", got 1" : ""})`;
  throw malformedReflection(`it has ${parts.length - 1} headings "Response:", expected one`, cause);
}

function malformedReflection(problem: string, cause: string): AttributedError {
  return userFailure("malformed-reply", `Cannot read the reflection of user "reflection": ${problem}.`, cause);
}

const labels = {
  // The model under review has the role "assistant" and acts as the customer.
  sane: { system: "System", user: "Agent", assistant: "Customer" },
  // Upstream labels by role, which swaps the names of both sides.
  upstream: { system: "System", user: "Customer", assistant: "Agent" },
} as const;

/**
 * One `Label: text` per line. Upstream's transcript shows the system prompt too; ours omits it,
 * since checkers get the instruction.
 */
function transcriptOf(messages: readonly ChatText[], compat: UserCompat): string {
  return messages
    .filter(({ role }) => compat === "upstream" || role !== "system")
    .map(({ role, content }) => `${labels[compat][role]}: ${content}`)
    .join("\n");
}

/** Asks a checker if a response may be sent as the next line after `messages`. */
function mayBeSent(
  { instruction, prompts, ask }: Conversation,
  input: { readonly messages: readonly ChatText[]; readonly response: string; readonly compat: UserCompat },
): Promise<boolean> {
  const transcript = transcriptOf(input.messages, input.compat);
  const question = prompts.check({ instruction, transcript, response: input.response });
  return ask([{ role: "user", content: question }], (answer, isTruncated) =>
    input.compat === "upstream"
      ? answer.toLowerCase().includes("true")
      : lastVerdict(splitReasoning(answer, { isTruncated }).content) === "true",
  );
}

/**
 * The last "true" or "false" of an answer counts, so that a checker may reason first; an answer
 * without either refuses.
 */
const lastVerdict = (answer: string): string | undefined =>
  answer
    .match(/\b(true|false)\b/gi)
    ?.at(-1)
    ?.toLowerCase();

/**
 * The trimmed text without reasoning. `isTruncated`: true if the reply ended at the length limit.
 * Throws the failure "empty-reply" when nothing is left.
 */
function readUtterance(reply: string, isTruncated: boolean): string {
  const text = splitReasoning(reply, { isTruncated }).content.trim();
  if (text === "") throw emptyReply(reply);
  return text;
}

/** The unchanged reply. Throws the failure "empty-reply" when it has only white space. */
function readRaw(reply: string): string {
  if (reply.trim() === "") throw emptyReply(reply);
  return reply;
}

const emptyReply = (reply: string) =>
  userFailure(
    "empty-reply",
    `Cannot take the user model's reply as a line: it is ${reply.trim() === "" ? "empty" : "nothing but reasoning"}, expected text; allow more tokens, or choose another model.`,
    reply === "" ? null : JSON.stringify(reply.slice(0, 300)),
  );
