// A conversation in the form in which the loop would have recorded it, had the policy sampled its
// answers: the same renderer, bridges, recorder and masks. Answers are encoded here because only
// their text is known; in a rollout the sampled ids are never changed.

import { type AssistantMessage, ConfigurationError, type Message, type Tokenizer } from "../../core/index.ts";
import {
  answerFrame,
  AuditedTemplate,
  type AuditTemplateOptions,
  ChatTemplateError,
  openerOf,
  type WrittenAnswer,
  writtenAnswer,
} from "../../renderers/index.ts";
import { toSamples, TrajectoryRecorder } from "../../trajectories/index.ts";
import type { Conversation } from "./read-conversation.ts";
import { observedTokens, storySamples, type TokenRole, type TokenStory } from "./episode-story.ts";

/**
 * Throws a `ConfigurationError` for a conversation that a policy cannot have had, or that the
 * template refuses.
 */
export function playConversation(conversation: Conversation, input: AuditTemplateOptions): TokenStory {
  const template = new AuditedTemplate(input, conversation.tools);
  try {
    return new Player(template, conversation).play();
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    throw new ConfigurationError(`Cannot render the conversation: the chat template refuses it: ${error.message}`, {
      cause: error,
    });
  }
}

class Player {
  readonly #template: AuditedTemplate;
  readonly #conversation: Conversation;
  readonly #tokenizer: Tokenizer;
  readonly #recorder = new TrajectoryRecorder();
  readonly #rolesOfTurns = new Map<number, readonly TokenRole[]>();
  /** Roles of the tokens in the recorder's prompt. */
  #roles: TokenRole[] = [];
  #generationPrompt: Uint32Array = new Uint32Array();
  readonly #notes: string[] = [];

  constructor(template: AuditedTemplate, conversation: Conversation) {
    this.#template = template;
    this.#tokenizer = template.tokenizer;
    this.#conversation = conversation;
  }

  play(): TokenStory {
    const { renderer } = this.#template;
    const { messages } = this.#conversation;
    const first = firstAnswer(messages);
    const opening = messages.slice(0, first);
    if (!opening.some(({ role }) => role === "user")) {
      throw new ConfigurationError("Cannot render the conversation: it has no user message; add at least one.");
    }
    this.#generationPrompt = this.#tokenizer.encode(this.#frame(opening).generationPrompt);
    const prompt = renderer.renderPrompt(opening, this.#conversation.tools);
    this.#recorder.extend(prompt.tokens, { spelledTokens: prompt.spelledTokens, deviation: null });
    this.#roles = this.#rolesOfPrompt(opening, prompt);
    let history: readonly Message[] = opening;
    for (let at = first; at < messages.length;) {
      const answer = messages[at] as AssistantMessage;
      const next = messages.findIndex(({ role }, index) => index > at && role === "assistant");
      const following = messages.slice(at + 1, next === -1 ? messages.length : next);
      if (following.length === 0 && next !== -1) {
        throw new ConfigurationError(
          `Cannot render the conversation: messages ${at} and ${next} are both answers; put what the policy was shown between.`,
        );
      }
      history = this.#turn({ answer, history, following, place: at });
      at = next === -1 ? messages.length : next;
    }
    return this.#story();
  }

  #frame(history: readonly Message[]): ReturnType<typeof answerFrame> {
    try {
      return answerFrame(this.#template, history);
    } catch (error) {
      throw new ConfigurationError(`Cannot render the conversation: the chat template refuses it: ${(error as Error).message}`, { cause: error }); // prettier-ignore
    }
  }

  #turn(turn: {
    readonly answer: AssistantMessage;
    readonly history: readonly Message[];
    readonly following: readonly Message[];
    readonly place: number;
  }): readonly Message[] {
    const { answer, following, place } = turn;
    const { renderer } = this.#template;
    const { tools } = this.#conversation;
    const { body, end } = this.#sampled(answer, { history: turn.history, place });
    const history: readonly Message[] = [...turn.history, { role: "assistant", content: body, reasoning: null, toolCalls: [] }]; // prettier-ignore
    const after = this.#template.render([...history, ...following], { addGenerationPrompt: true });
    const lastAction = this.#tokenizer.encode(body + (end ?? openerOf(after, history.length, this.#template)));
    const recorded = this.#recorder.act({
      sampledTokens: lastAction,
      logprobs: null,
      finish: { reason: "stop", matched: null, raw: null },
      weightSpans: [{ tokenCount: lastAction.length, dispatch: null, reply: null }],
    });
    this.#roles = [...this.#roles, ...roles(lastAction.length, "assistant")];
    this.#rolesOfTurns.set(recorded.index, this.#roles);
    if (following.length === 0) return history;
    const shown = [...history, ...following];
    const bridged = renderer.bridge({ messages: history, tools, lastAction, newMessages: following });
    if (bridged.type === "extended") {
      this.#recorder.extend(bridged.tokens, bridged);
      this.#roles = [...this.#roles, ...this.#rolesOfBridge(bridged.tokens, following)];
    } else {
      const prompt = renderer.renderPrompt(shown, tools);
      this.#recorder.rewrite(prompt.tokens, bridged.reason);
      this.#roles = this.#rolesOfPrompt(shown, prompt);
    }
    return shown;
  }

  /** Plain content is taken as sampled; reasoning and tool calls are written by the template. */
  #sampled(
    answer: AssistantMessage,
    { history, place }: { readonly history: readonly Message[]; readonly place: number },
  ): WrittenAnswer {
    // prettier-ignore
    const frame = this.#frame(history);
    const isPlain = answer.reasoning === null && answer.toolCalls.length === 0;
    const mustHold = answer.toolCalls[0]?.name ?? answer.content.trim();
    const written = writtenAnswer(this.#template, { frame, message: answer, mustHold });
    if (isPlain) return { body: answer.content, end: written?.end ?? this.#template.family.endToken };
    if (written !== null) {
      const { reasoning } = answer;
      if (reasoning !== null && !written.body.includes(reasoning.trim())) {
        this.#notes.push(`Message ${place}: the template leaves the reasoning out, so it is in no token.`);
      }
      return written;
    }
    throw new ConfigurationError(
      `Cannot render message ${place}: the template does not write its parts after the prompt; write the answer as the model ` +
        'would sample it, all of it in "content".',
    );
  }

  #rolesOfPrompt(
    messages: readonly Message[],
    prompt: { readonly tokens: Uint32Array; readonly spans: readonly { readonly message: number; readonly start: number; readonly end: number }[] }, // prettier-ignore
  ): TokenRole[] {
    const all = roles(prompt.tokens.length, "prompt");
    all.fill("template", 0, prompt.spans[0]?.start ?? 0);
    for (const { message, start, end } of prompt.spans) all.fill(messages[message]?.role ?? "template", start, end);
    return all;
  }

  /** The tokens that close an answer and those that open the next one belong to the template. */
  #rolesOfBridge(tokens: Uint32Array, messages: readonly Message[]): TokenRole[] {
    const all = roles(tokens.length, messages[0]?.role ?? "template");
    const closing = this.#tokenizer.encode(this.#template.family.closing);
    if (closing.every((id, at) => tokens[at] === id)) all.fill("template", 0, closing.length);
    const opened = tokens.length - this.#generationPrompt.length;
    if (this.#generationPrompt.every((id, at) => tokens[opened + at] === id)) all.fill("prompt", opened);
    return all;
  }

  #story(): TokenStory {
    const { renderer } = this.#template;
    const { trajectory } = this.#recorder;
    const decode = (ids: Uint32Array): string => this.#tokenizer.decode(ids);
    const { samples } = toSamples(trajectory, {
      episodeId: "conversation",
      groupId: "conversation",
      taskId: "conversation",
      reward: null,
      tokenAccounting: "token-exact",
      historyPolicy: renderer.historyPolicy,
    });
    const rows = storySamples({ trajectory, samples, roles: this.#rolesOfTurns, decode });
    const last = rows.at(-1);
    const unanswered = observedTokens(this.#recorder.prompt.view(), this.#roles, decode);
    const rest = unanswered.slice(last?.tokens.length ?? 0);
    const isExtended = last !== undefined && last.tokens.every(({ id }, at) => unanswered[at]?.id === id);
    const ending =
      last === undefined || !isExtended
        ? [{ id: `conversation/${rows.length}`, rewriteReason: null, tokens: unanswered }]
        : [{ ...last, tokens: [...last.tokens, ...rest] }];
    return {
      renderer: renderer.family,
      tokenizer: this.#tokenizer.name,
      historyPolicy: renderer.historyPolicy,
      samples: [...(isExtended ? rows.slice(0, -1) : rows), ...ending],
      notes: [
        ...this.#notes,
        ...(this.#template.mismatch === null
          ? []
          : [`The family does not describe this template: ${this.#template.mismatch}.`]),
      ],
    };
  }
}

/** Answers before the first user message, such as greetings, are shown, not sampled. */
function firstAnswer(messages: readonly Message[]): number {
  const opened = messages.findIndex(({ role }) => role === "user");
  const first = messages.findIndex(({ role }, index) => role === "assistant" && index > opened);
  return opened === -1 || first === -1 ? messages.length : first;
}

function roles(count: number, role: TokenRole): TokenRole[] {
  return Array.from({ length: count }, () => role);
}
