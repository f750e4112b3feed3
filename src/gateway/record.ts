// Record of a session: its turns, and the prompt of each request built from them. A prompt is the
// record plus the tokens that the bridge appends; if the client or the chat template rewrote
// history, the prompt is rendered, and the turn holds the reason. It samples nothing.

import {
  type ActionProblem,
  attribute,
  AttributedError,
  type BridgeResult,
  type Message,
  type ParsedAction,
  type RenderedPrompt,
  type Renderer,
  TokenBuffer,
  type Turn,
} from "../core/index.ts";
import { finish, type Steps } from "../lib/steps.ts";
import { turnSequence } from "../trajectories/index.ts";
import { inCallOrder, takenApart, withSampledIds } from "./call-results.ts";
import {
  type Continuation,
  conversationOf,
  History,
  type SampledTurn,
  seenAnswer,
  seenPrompt,
  type ToolSet,
} from "./history.ts";
import { GatewayError, type GatewayRequest, type SampledItems } from "./request.ts";
import { actionText } from "./shown-action.ts";

/** Reason why a prompt does not extend the last turn of a conversation. */
type BranchReason =
  | "another-conversation"
  | "history-edited"
  | "tools-changed"
  | "sampled-again"
  | "compaction"
  | "template-rewrites";

/** Counts of prompts by how they were built. */
export type PromptCounters = {
  /** Prompts that extend the record. */
  extended: number;
  /** Branches by {@link BranchReason}. */
  readonly branched: Record<string, number>;
  /** Extended prompts that contain an action in another form than sampled; always 0. */
  reencoded: number;
};

/** A rendered prompt and its place in the record. */
export type Prompt = {
  readonly buffer: TokenBuffer;
  readonly basis: SampledTurn | null;
  readonly parent: number | null;
  readonly observedFrom: number;
  /** Same as in {@link SampledTurn}. */
  readonly messages: readonly Message[];
  readonly tools: ToolSet;
  readonly rendered: readonly Message[];
  readonly continues: number | null;
  readonly facts: Pick<Turn, "spelledTokens" | "deviation" | "rewriteReason">;
};

/**
 * Minimum length of a text that counts as the summary written by an earlier turn, in characters.
 */
const shortestSummary = 80;
/**
 * Maximum number of attempts to split merged answers of a request, because each one searches the
 * whole conversation.
 */
const mostTries = 64;
/**
 * Number of latest turns that may have written the summary: each is searched for in the whole
 * request.
 */
const summaryTurns = 64;

export class SessionRecord implements SampledItems {
  readonly idPrefix: string;
  readonly turns: Turn[] = [];
  readonly counters: PromptCounters = { extended: 0, branched: {}, reencoded: 0 };
  readonly #renderer: Renderer;
  #history = new History();
  readonly #byCall = new Map<number, SampledTurn>();
  readonly #byTurn = new Map<number, SampledTurn>();
  #sampledTokens = 0;

  constructor(renderer: Renderer, idPrefix: string) {
    this.#renderer = renderer;
    this.idPrefix = idPrefix;
  }

  /** Sampled turns in the order in which they ended. */
  get sampled(): readonly SampledTurn[] {
    return [...this.#byTurn.values()];
  }

  /** Problems of all actions, in order. */
  get problems(): readonly ActionProblem[] {
    return this.sampled.flatMap(({ action }) => action.problems.map(asActionProblem));
  }

  get sampledTokens(): number {
    return this.#sampledTokens;
  }

  toolSet(tools: ToolSet["tools"], renderer: Renderer | null = null): ToolSet {
    return this.#history.toolSet(tools, renderer);
  }

  ofCall(call: number): SampledTurn | null {
    return this.#byCall.get(call) ?? null;
  }

  ofTurn(turn: number): SampledTurn | null {
    return this.#byTurn.get(turn) ?? null;
  }

  /** Keeps the turns, but continues none of them, because the program begins again. */
  forget(): void {
    this.#history = new History();
    this.#byCall.clear();
    this.#byTurn.clear();
  }

  /**
   * Messages as the renderer receives them: answers that were sampled here are replaced by the
   * sampled ones.
   */
  rendered(basis: SampledTurn | null, messages: readonly Message[], tools: ToolSet): readonly Message[] {
    const before = basis === null ? [] : [...seenPrompt(basis), seenAnswer(basis)];
    const { sampled } = finish(this.#history.find([...before, ...messages], tools));
    return messages.map((message, at) => sampled.get(before.length + at)?.answer ?? message);
  }

  answer(call: number): ReturnType<SampledItems["answer"]> {
    const sampled = this.#byCall.get(call);
    return sampled === undefined ? null : { action: sampled.action, isStored: sampled.response?.isStored ?? true };
  }

  history(call: number): ReturnType<SampledItems["history"]> {
    const sampled = this.#byCall.get(call);
    if (sampled === undefined) return null;
    // The client's version of the answers, so that they are matched like any other history.
    return {
      messages: [...seenPrompt(sampled), seenAnswer(sampled)],
      hasInstructions: sampled.response?.hasInstructions ?? false,
    };
  }

  /**
   * Finds the place of a conversation: `messages` as its client has it, `rendered` with the answers
   * as they were sampled.
   */
  *#find(
    sent: readonly Message[],
    tools: ToolSet,
  ): Steps<Omit<Continuation, "sampled"> & Record<"messages" | "rendered", readonly Message[]>> {
    const [ordered, { sampled, ...place }] = yield* this.#findApart(inCallOrder(sent), tools);
    const calls = new Map([...sampled].map(([at, { action }]) => [at, action.toolCalls]));
    const messages = withSampledIds(ordered, calls);
    return { ...place, messages, rendered: messages.map((message, at) => sampled.get(at)?.answer ?? message) };
  }

  /**
   * Finds the known part of a conversation, splitting messages in which the client merged several
   * steps as long as more of it becomes known.
   */
  *#findApart(ordered: readonly Message[], tools: ToolSet): Steps<readonly [readonly Message[], Continuation]> {
    let messages = ordered;
    let place = yield* this.#history.find(messages, tools);
    for (let count = 1, tries = 0; tries < mostTries; tries++) {
      const parts = takenApart(messages, place.known, count);
      if (parts === null) break;
      const found = yield* this.#history.find(parts, tools);
      if (found.known <= place.known) count++;
      else [messages, place, count] = [parts, found, 1];
    }
    return [messages, place];
  }

  /** Number of tokens of the prompt that this request would have. */
  *countTokens(request: GatewayRequest): Steps<number> {
    if (request.promptTokens !== null) return request.promptTokens.length;
    const tools = this.#history.toolSet(request.tools);
    const { basis, covered, rendered } = yield* this.#find(request.messages, tools);
    const newMessages = rendered.slice(covered);
    const bridged = basis === null ? null : yield* this.#bridge(basis, tools, newMessages);
    if (basis !== null && bridged?.type === "extended") return basis.length + bridged.tokens.length;
    const all = [...(basis === null ? [] : conversationOf(basis)), ...newMessages];
    return (yield* this.#renderAll(all, tools)).tokens.length;
  }

  /**
   * Builds the prompt of a request, in steps that change nothing; calling the resulting function
   * adds the prompt to the record. Throws a `GatewayError` for a request that cannot be sampled.
   * `renderer`: the renderer of this call. Default: the session's.
   */
  *prompt(
    request: Pick<GatewayRequest, "messages" | "tools" | "promptTokens" | "promptField">,
    renderer: Renderer | null = null,
  ): Steps<() => Prompt> {
    const { messages: sent, promptTokens } = request;
    const tools = this.toolSet(request.tools, renderer);
    if (promptTokens !== null) return this.#promptOf(promptTokens, tools, request.promptField);
    if (sent.at(-1)?.role === "assistant") {
      throw new GatewayError(
        "unsupported",
        "Cannot serve the request: its last message is the assistant's; an answer that is begun by the client is not the policy's.",
        { param: "messages" },
      );
    }
    const { basis, covered, known, hasOtherTools, messages, rendered: all } = yield* this.#find(sent, tools);
    if (basis === null) {
      const whole = { basis, messages, tools, rendered: messages };
      if (this.#byTurn.size === 0) return yield* this.#renderWhole(whole, null);
      const continues = yield* this.#summaryIn(messages);
      const reason = continues === null ? this.#rootReason(whole, { known, hasOtherTools }) : "compaction";
      return yield* this.#renderWhole(
        { ...whole, rendered: all },
        {
          reason,
          sentence: sentenceOf(reason, known),
          continues,
        },
      );
    }
    const newMessages = messages.slice(covered);
    const added = { basis, tools, messages: newMessages, rendered: all.slice(covered) };
    const bridged = yield* this.#bridge(basis, tools, added.rendered);
    if (bridged?.type !== "extended") {
      const sentence = bridged?.reason ?? "the chat template cannot write the new messages in their place";
      return yield* this.#renderWhole(added, { reason: "template-rewrites", sentence, continues: null });
    }
    return () => {
      basis.isDelivered = true;
      const buffer = this.#claim(basis);
      const observedFrom = buffer.length;
      this.#checkExtends(buffer, basis);
      buffer.append(bridged.tokens);
      const reason = !basis.isContinued ? null : known === messages.length ? "sampled-again" : "history-edited";
      this.#countBranch(reason);
      const { spelledTokens, deviation } = bridged;
      return {
        ...added,
        buffer,
        observedFrom,
        parent: basis.turn.index,
        continues: null,
        facts: { spelledTokens, deviation, rewriteReason: reason === null ? null : sentenceOf(reason, known) },
      };
    };
  }

  /**
   * Facts about a turn's prompt when the turn is recorded. If several calls were in flight, the
   * first one recorded continues the conversation; the others are branches and record the reason.
   */
  factsOf({ basis, parent, messages, tools, facts }: Prompt): Prompt["facts"] {
    const isFirst = basis === null ? this.#byTurn.size === 0 || parent !== null : !basis.isContinued;
    if (isFirst || facts.rewriteReason !== null) return facts;
    const all = basis === null ? messages : [...seenPrompt(basis), seenAnswer(basis), ...messages];
    const place = finish(this.#history.find(all, tools));
    if (basis !== null) this.counters.extended--;
    const again = place.known === all.length ? "sampled-again" : "history-edited";
    const reason = basis === null ? this.#rootReason({ messages, tools }, place) : again;
    this.#countBranch(reason);
    return { ...facts, rewriteReason: sentenceOf(reason, place.known) };
  }

  /** Reason of a conversation that continues no sampled turn, in a session that has others. */
  #rootReason(
    { messages, tools }: Pick<Prompt, "messages" | "tools">,
    { known, hasOtherTools }: { readonly known: number; readonly hasOtherTools: boolean },
  ): BranchReason {
    if (hasOtherTools) return "tools-changed";
    if (known === messages.length && known > 0) {
      const before = [...this.#byTurn.values()].filter((turn) => turn.basis === null && turn.messages.length === known);
      if (before.some((turn) => turn.tools === tools)) return "sampled-again";
      if (before.length > 0) return "tools-changed";
    }
    return known > 1 ? "history-edited" : "another-conversation";
  }

  /**
   * A prompt that a program rendered itself: it continues the longest part of the record with which
   * it begins.
   */
  #promptOf(tokens: Uint32Array, tools: ToolSet, param: string): () => Prompt {
    const { vocabularySize } = this.#renderer;
    if (tokens.some((id) => id >= vocabularySize)) {
      const message = `Cannot serve the request: the model knows ids below ${vocabularySize}.`;
      throw new GatewayError("invalid-request", message, { param });
    }
    return () => {
      const shared = this.#sharedPrefix(tokens);
      const reason = this.turns.length === 0 || shared !== null ? null : "another-conversation";
      this.#countBranch(reason);
      return {
        basis: null,
        messages: [],
        rendered: [],
        tools,
        continues: null,
        buffer: TokenBuffer.from(tokens),
        parent: shared?.index ?? null,
        observedFrom: shared?.length ?? 0,
        facts: { spelledTokens: 0, deviation: null, rewriteReason: reason === null ? null : sentenceOf(reason, 0) },
      };
    };
  }

  /** Bridges from a turn to new messages; `null` if the template refuses. */
  #bridge(basis: SampledTurn, tools: ToolSet, newMessages: readonly Message[]): Steps<BridgeResult | null> {
    const renderer = tools.renderer ?? this.#renderer;
    const { inSteps } = renderer;
    const messages = conversationOf(basis);
    const input = { messages, tools: tools.tools, lastAction: basis.turn.sampledTokens, newMessages };
    return unlessRefused(inSteps?.bridge(input) ?? oneStep(() => renderer.bridge(input)));
  }

  #render(messages: readonly Message[], { tools, renderer: own }: ToolSet): Steps<RenderedPrompt> {
    const renderer = own ?? this.#renderer;
    const { inSteps } = renderer;
    return inSteps?.renderPrompt(messages, tools) ?? oneStep(() => renderer.renderPrompt(messages, tools));
  }

  /** Renders a whole prompt. `why`: reason of the branch; `null` if the session begins. */
  *#renderWhole(
    added: Pick<Prompt, "basis" | "messages" | "tools" | "rendered">,
    why: { readonly reason: BranchReason; readonly sentence: string; readonly continues: number | null } | null,
  ): Steps<() => Prompt> {
    const messages = [...(added.basis === null ? [] : conversationOf(added.basis)), ...added.rendered];
    const rendered = yield* this.#renderAll(messages, added.tools);
    return () => {
      if (added.basis !== null) added.basis.isDelivered = true;
      const shared = why === null ? null : this.#sharedPrefix(rendered.tokens);
      if (why !== null) this.#countBranch(why.reason);
      return {
        ...added,
        buffer: TokenBuffer.from(rendered.tokens),
        continues: why?.continues ?? null,
        parent: shared?.index ?? null,
        observedFrom: shared?.length ?? 0,
        facts: { spelledTokens: rendered.spelledTokens, deviation: null, rewriteReason: why?.sentence ?? null },
      };
    };
  }

  /**
   * Renders messages; for templates that accept a system message only at the beginning, all system
   * messages are moved there. Throws a `GatewayError`.
   */
  *#renderAll(messages: readonly Message[], tools: ToolSet): Steps<RenderedPrompt> {
    const rendered = yield* unlessRefused(this.#render(messages, tools));
    if (rendered !== null) return rendered;
    const system = messages.filter(({ role }) => role === "system").map(({ content }) => content);
    const moved: Message[] = [
      ...(system.length === 0 ? [] : [{ role: "system", content: system.join("\n\n") } as const]),
      ...messages.filter(({ role }) => role !== "system"),
    ];
    try {
      return yield* this.#render(moved, tools);
    } catch (error) {
      const { message } = attribute(error, "renderer").failure;
      throw new GatewayError("invalid-request", `Cannot render the conversation: ${message}`, { cause: error });
    }
  }

  /**
   * The turn up to which a rendered prompt equals the record, so that shared tokens are stored
   * once.
   */
  #sharedPrefix(tokens: Uint32Array): { readonly index: number; readonly length: number } | null {
    let longest: { readonly index: number; readonly length: number } | null = null;
    /**
     * For each turn that the prompt begins with, the number of tokens up to its end. Parents
     * precede their children.
     */
    const lengths = new Map<number, number>();
    for (const { index, parent, observationTokens, sampledTokens } of this.turns) {
      const start = parent === null ? 0 : lengths.get(parent);
      const middle = start === undefined ? null : endOfPart(tokens, observationTokens, start);
      const length = middle === null ? null : endOfPart(tokens, sampledTokens, middle);
      if (length === null) continue;
      lengths.set(index, length);
      if (length > (longest?.length ?? 0)) longest = { index, length };
    }
    return longest;
  }

  /** A buffer that ends with the action of a turn, for one continuation. */
  #claim(basis: SampledTurn): TokenBuffer {
    basis.buffer ??= TokenBuffer.from(turnSequence({ turns: this.turns }, basis.turn.index));
    if (basis.isClaimed) return basis.buffer.fork(basis.length);
    basis.isClaimed = true;
    return basis.buffer;
  }

  /** Checks that a prompt begins with the record, token for token. */
  #checkExtends(buffer: TokenBuffer, { turn, length }: SampledTurn): void {
    const { sampledTokens } = turn;
    const action = buffer.view(buffer.length - sampledTokens.length);
    const isRecord = buffer.length === length && sampledTokens.every((id, at) => action[at] === id);
    if (isRecord) return;
    this.counters.reencoded++;
    throw new Error(
      `Cannot extend turn ${turn.index}: its prompt is not the record. This is a bug of trainable-agents.`,
    );
  }

  *#summaryIn(messages: readonly Message[]): Steps<number | null> {
    const shown = messages.filter(({ role }) => role !== "assistant").map(({ content }) => content);
    for (const { action, turn } of [...this.#byTurn.values()].slice(-summaryTurns).toReversed()) {
      const text = action.content.trim();
      if (text.length >= shortestSummary && shown.some((content) => content.includes(text))) return turn.index;
      yield;
    }
    return null;
  }

  addTurn(turn: Turn): void {
    this.turns.push(turn);
    this.#sampledTokens += turn.sampledTokens.length;
  }

  addSampled(
    fields: Pick<SampledTurn, "turn" | "call" | "basis" | "messages" | "rendered" | "tools" | "action" | "response">,
    buffer: TokenBuffer | null,
  ): SampledTurn {
    // The answer as sampled: the version that the client receives may end earlier.
    const content = actionText(fields.turn.sampledTokens, this.#renderer);
    const answer = { role: "assistant", content, reasoning: null, toolCalls: [] } as const;
    const flags = { isClaimed: false, isContinued: false, isDelivered: false };
    const length = buffer?.length ?? lengthOf(this.turns, fields.turn);
    const sampled: SampledTurn = { ...fields, answer, buffer, length, ...flags };
    if (fields.basis !== null) fields.basis.isContinued = true;
    this.#byCall.set(fields.call, sampled);
    this.#byTurn.set(fields.turn.index, sampled);
    this.#history.add(sampled);
    return sampled;
  }

  #countBranch(reason: BranchReason | null): void {
    if (reason === null) this.counters.extended += this.turns.length > 0 ? 1 : 0;
    else this.counters.branched[reason] = (this.counters.branched[reason] ?? 0) + 1;
  }
}

function lengthOf(turns: readonly Turn[], turn: Turn): number {
  let length = 0;
  for (let at: Turn | undefined = turn; at !== undefined; at = at.parent === null ? undefined : turns[at.parent]) {
    length += at.observationTokens.length + at.sampledTokens.length;
  }
  return length;
}

/** End of a part that is expected at a position of the whole; `null` if it is not there. */
function endOfPart(whole: Uint32Array, part: Uint32Array, start: number): number | null {
  const end = start + part.length;
  return end <= whole.length && part.every((id, place) => whole[start + place] === id) ? end : null;
}

// A third-party renderer may do all its work in one step.
// oxlint-disable-next-line require-yield
function* oneStep<T>(run: () => T): Steps<T> {
  return run();
}

/** Result of the steps; `null` if the chat template refuses. */
function* unlessRefused<T>(steps: Steps<T>): Steps<T | null> {
  try {
    return yield* steps;
  } catch (error) {
    // A token beyond the vocabulary is a fault, not a refusal of the chat template.
    if (error instanceof AttributedError) throw error;
    return null;
  }
}

function sentenceOf(reason: BranchReason, known: number): string {
  const sentences: Record<BranchReason, string> = {
    "another-conversation": "another conversation of the same session",
    "history-edited": `the client changed the history at message ${known}`,
    "tools-changed": "the client changed the tools",
    "sampled-again": "the client requested this turn again",
    compaction: "the conversation begins again from a summary",
    "template-rewrites": "the chat template rewrites the history",
  };
  return sentences[reason];
}

/** Translates into the problem taxonomy of actions; see `agents/decide-action.ts`. */
function asActionProblem({ code, toolName, detail }: ParsedAction["problems"][number]): ActionProblem {
  if (code === "not-an-object") return { code: "not-json", toolName, detail };
  return { code: code === "no-name" ? "unknown-tool" : code, toolName, detail };
}
