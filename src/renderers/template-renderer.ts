// The renderer of a chat template with the known facts of its family: whole prompts by the
// template, later turns by a bridge that encodes only new text, actions by the family's parsers.
// Generated text is never encoded again.

import {
  type BridgeInput,
  type BridgeResult,
  type Message,
  type MessageSpan,
  type RenderedPrompt,
  type Renderer,
  type Tokenizer,
  type Tool,
  AttributedError,
  ConfigurationError,
} from "../core/index.ts";
import { finish, mapInSteps, type Steps } from "../lib/steps.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import {
  heldBack,
  mayBeOtherFormat,
  otherFormatNames,
  type ReasoningParser,
  reasoningParser,
  isResponseTemplate,
  responseTemplateName,
  type ResponseTemplateParsers,
  type ToolCallParser,
  toolCallParser,
} from "../parsers/on-demand.ts";
import { createActionReader } from "./action-reader.ts";
import { type TemplateContext, type TemplateSegment, type TemplateSource } from "./chat-template.ts";
import { applyPromptEdits, checkPromptEdits, type PromptEdit, requireShown, segmentsText } from "./segments.ts";
import { type EncodedSegments, encodeSegments, messageSpans } from "./encode-prompt.ts";
import type { RendererFamily } from "./renderer-family.ts";
import { bundledChatTemplate } from "./bundled-template.ts";
import { compiledTemplate, unlessRefused } from "./template-text.ts";

export type RendererOptions = {
  /**
   * The model's chat template, a Jinja program or an encoder. Default: the bundled one, for
   * families in its format; the others require one.
   */
  readonly chatTemplate?: TemplateSource;
  /** `bos_token`, `eos_token`, ... of the model's tokenizer_config.json. Default: the family's. */
  readonly specialTokens?: ReadonlyMap<string, string>;
  /** Changes to the text of the template itself, never to that of a message. Default none. */
  readonly promptEdits?: readonly PromptEdit[];
  /**
   * Reaction where the template rewrites history. Default "keep-reasoning": history is only
   * appended to, against the template. Append-only families rewrite nothing, so for them "branch"
   * only concerns actions that ended with another stop token than the template writes: by default
   * those are appended to and named (`TemplateDeviation`). Families whose history is unproven
   * always branch.
   */
  readonly historyPolicy?: "keep-reasoning" | "branch";
  /**
   * Turns thinking on or off, if the family's template has the switch. Default: the template's own
   * setting.
   */
  readonly thinking?: boolean;
  /**
   * Variables of the chat template by name, such as `reasoning_effort`; servers take them as
   * `chat_template_kwargs`. The template must read each of them. Default none.
   */
  readonly templateKwargs?: JsonObject;
  /**
   * Local time for templates that write the date: ISO without a zone. Default: the time at which
   * the renderer is made.
   */
  readonly now?: string;
  /** Name of the tool-call parser, or "response_template". Default: the family's. */
  readonly toolCallParser?: string;
  /** Name of the reasoning parser, "response_template" or "none". Default: the family's. */
  readonly reasoningParser?: string;
  /**
   * Makes the parsers of the checkpoint's own response template (`responseTemplateParsers`), which
   * are used if they are named, and for calls and thoughts if no tool-call parser is known for the
   * chat template. Default: the checkpoint has none.
   */
  readonly responseTemplate?: () => ResponseTemplateParsers;
  /** Default "tokens": a marker spelled out by other tokens is text. "text" reads as SGLang does. */
  readonly parseMode?: "tokens" | "text";
  /** Vocabulary size as in `Renderer`, from `ModelFolder`. Default: that of the tokenizer. */
  readonly vocabularySize?: number;
  /**
   * Meaning of a control token that the content of a user or tool message spells out. Default
   * "text": the characters of its spelling, so that an echo of `<|im_end|>` does not end a turn.
   * "parse": the token, as servers that encode a whole rendering read it.
   */
  readonly controlTokens?: "text" | "parse";
  /** Recover calls from near-misses, each reported as the problem "repaired". Default false, as in SGLang. */
  readonly repair?: boolean;
};

/** Throws a `ConfigurationError` when the tokenizer lacks the family's tokens, or an option does not fit the family. */
export function createTemplateRenderer(
  family: RendererFamily,
  tokenizer: Tokenizer,
  options: RendererOptions = {},
): Renderer {
  const chatTemplate = templateTextOf(family, options.chatTemplate);
  const template = compiledTemplate(chatTemplate);
  const specialTokens = new Map([
    ...family.specialTokens,
    ...tokenNames(family, tokenizer),
    ...(options.specialTokens ?? []),
  ]);
  const context: TemplateContext = { specialTokens, now: options.now ?? localTime(new Date()) };
  const edits = options.promptEdits ?? [];
  const kwargs = templateVariables(family, template.variables, options);
  const endId = family.endToken === null ? null : requireToken(family, tokenizer, family.endToken);
  const endIds = [endId, ...family.otherEnds.map((text) => requireToken(family, tokenizer, text))];
  requireToken(family, tokenizer, family.startToken);
  const stopTokenIds = family.stopTokens.flatMap((text) => tokenizer.tokenId(text) ?? []);
  // If nothing is known about a template, only comparing renderings is safe, and "branch" does
  // that.
  const policies = { "append-only": "append-only", rewrites: options.historyPolicy ?? "keep-reasoning", unproven: "branch" } as const; // prettier-ignore
  const historyPolicy = policies[family.history];
  const vocabularySize = options.vocabularySize ?? tokenizer.vocabularySize;

  /**
   * The only place that encodes: segments of these messages, or their text after `from` characters.
   */
  function* encode(
    segments: readonly TemplateSegment[],
    messages: readonly Message[],
    from = 0,
  ): Steps<EncodedSegments> {
    const controlTokens = options.controlTokens ?? "text";
    const encoded = yield* encodeSegments(segments, { messages, tokenizer, controlTokens, from });
    if (tokenizer.vocabularySize > vocabularySize) checkVocabulary(encoded.tokens, vocabularySize, tokenizer);
    return encoded;
  }

  const { toolCalls: calls, reasoning, isKnown: readsCalls } = chosenParsers(family, options);

  function* render(messages: readonly Message[], tools: readonly Tool[]): Steps<readonly TemplateSegment[]> {
    if (tools.length > 0 && !readsCalls) throw unreadCallsError(family.name);
    const wire = yield* mapInSteps(family.restate(messages), (message) => family.wire(message));
    const segments = yield* template.inSteps({
      messages: wire,
      tools: tools.length === 0 ? family.noTools : tools.map((tool) => tool.definition),
      addGenerationPrompt: true,
      kwargs,
      context,
    });
    requireShown(family.name, segments, messages);
    return applyPromptEdits(segments, edits);
  }
  // A template that refuses a single question is refused when the renderer is made.
  const actionPrompt = unlessRefused(
    chatTemplate,
    () => {
      checkPromptEdits({ family, template, context }, edits);
      return generationPrompt(finish(render([{ role: "user", content: "?" }], [])));
    },
    "it refuses a question: ",
  );

  function* renderPrompt(messages: readonly Message[], tools: readonly Tool[]): Steps<RenderedPrompt> {
    const segments = yield* render(messages, tools);
    const { text, literal, tokens, spelledTokens } = yield* encode(segments, messages);
    const { startToken } = family;
    let spans: readonly MessageSpan[] | null = null;
    return {
      tokens,
      text,
      // Computed on first read: spans cost as much as encoding, and few callers read them.
      get spans() {
        const prompt = { segments, text, literal, tokens };
        return (spans ??= messageSpans(prompt, { tokenizer, startToken, messageCount: messages.length }));
      },
      spelledTokens,
    };
  }

  /** The end token, if the action lacks it. */
  const missingEnd = (lastAction: Uint32Array): string =>
    family.endToken === null || endIds.includes(lastAction.at(-1) ?? null) ? "" : family.endToken;

  const isStop = (token: number | undefined): boolean =>
    token !== undefined && (stopTokenIds.includes(token) || endIds.includes(token));

  /**
   * Text that an action lacks before the next message: the closing tag of thinking in which it
   * ends, and the end token. If it sampled its end inside the thinking, the end is written once
   * more.
   */
  const missingAfter = (lastAction: Uint32Array): string => {
    const isEnded = isStop(lastAction.at(-1));
    const end = missingEnd(lastAction);
    const thought = thoughtEnd(tokenizer.decode(isEnded ? lastAction.subarray(0, -1) : lastAction));
    if (thought === "" || (isEnded && family.endToken === null)) return end;
    return thought + (family.endToken ?? "");
  };

  /**
   * True for a stop token that the template does not write at the end of the action; `next` is the
   * token that opens the next message.
   */
  const isOtherEnd = (last: number | undefined, next: number | undefined): boolean => {
    if (last === undefined || !stopTokenIds.includes(last)) return false;
    return endId === null ? last !== next : !endIds.includes(last);
  };

  /**
   * New messages after an action, rendered after a stand-in for the history: the cost depends only
   * on the new messages.
   */
  function* append({ messages, lastAction, newMessages }: BridgeInput): Steps<BridgeResult> {
    const standIn = family.standIn(messages);
    const shown = [...standIn, ...newMessages];
    const segments = yield* render(shown, []);
    const { end, moved } = historyEnd(segments, standIn.length);
    if (moved !== null) {
      const place = messages.length + moved - standIn.length;
      return { type: "refused", reason: `the chat template of "${family.name}" moves message ${place} to the front` };
    }
    const ending: TemplateSegment = {
      message: null,
      source: "template",
      text: missingAfter(lastAction) + family.closing,
    };
    const { tokens, spelledTokens } = yield* encode([ending, ...segments.slice(end + 1)], shown);
    // If an action ends with the token that opens the next message, that token has been sampled
    // already.
    const last = lastAction.at(-1);
    const isOpened = endId === null && tokens.length > 0 && tokens[0] === last;
    const deviation = isOtherEnd(last, tokens[0]) ? "other-end-token" : null;
    if (deviation !== null && options.historyPolicy === "branch") {
      const written = family.endToken ?? tokenizer.decode(tokens.subarray(0, 1));
      return {
        type: "refused",
        reason: `the action ended with "${tokenizer.decode([last!])}" where the chat template of "${family.name}" writes "${written}"`,
      };
    }
    return { type: "extended", tokens: isOpened ? tokens.subarray(1) : tokens, spelledTokens, deviation };
  }

  /**
   * Extends only if the template, given the new messages, still writes all that the policy saw and
   * sampled.
   */
  function* extendOrRefuse({ messages, tools, lastAction, newMessages }: BridgeInput): Steps<BridgeResult> {
    const before = segmentsText(yield* render(messages.slice(0, -1), tools));
    const seen = before + tokenizer.decode(lastAction);
    const shown = [...messages, ...newMessages];
    const segments = yield* render(shown, tools);
    const after = segmentsText(segments);
    const ended = seen + missingAfter(lastAction);
    if (after.startsWith(ended)) {
      const { tokens, spelledTokens } = yield* encode(segments, shown, seen.length);
      return { type: "extended", tokens, spelledTokens, deviation: null };
    }
    return { type: "refused", reason: rewriteReason(family.name, segments, ended) };
  }

  const { parseMode = "tokens", repair = false } = options;
  const bridge = historyPolicy === "branch" ? extendOrRefuse : append;
  const thoughtEnd = thoughtEndOf(reasoning, actionPrompt, Object.keys(calls.hints.nesting)[0] ?? null);

  const parseAction = createActionReader({
    tokenizer,
    stopTokenIds,
    toolCallParser: calls,
    reasoningParser: openedReasoning(reasoning, actionPrompt),
    frame: family.actionFrame,
    parseMode,
    repair,
    // Other formats are known only if their calls are carried out.
    otherParsers: repair ? otherFormatNames.map(toolCallParser) : [],
  });

  return {
    family: family.name,
    historyPolicy,
    stopTokenIds,
    vocabularySize,
    templateKwargs: kwargs,
    withTemplateKwargs: (further) => {
      const unread = [...further.keys()].filter((name) => !template.variables.includes(name));
      const read = [...further].filter(([name]) => !unread.includes(name));
      const { thinking: _, ...others } = options;
      const changed = { ...others, templateKwargs: new Map([...kwargs, ...read]), now: context.now! };
      return { renderer: createTemplateRenderer(family, tokenizer, changed), unread };
    },
    parsers: { toolCalls: calls.name, reasoning: reasoning?.name ?? null, mode: parseMode, repair },
    renderPrompt: (messages, tools) => finish(renderPrompt(messages, tools)),
    bridge: (input) => finish(bridge(input)),
    inSteps: { renderPrompt, bridge },
    parseAction,
    unclosedThought: thoughtEnd,
    // Text that may be carried out as a call must not be shown before.
    heldBack: (text) => (repair && mayBeOtherFormat(text) ? text.length : heldBack(text, calls.hints, reasoning)),
    actionForms: async (tools) =>
      (await import("./action-forms.ts")).actionForms(tools, { family, calls: calls.name, reasoning, actionPrompt }),
    decode: (tokens) => tokenizer.decode(tokens),
    startDecoding: () => tokenizer.startDecoding(),
  };
}

function templateTextOf(family: RendererFamily, chatTemplate: TemplateSource | undefined): TemplateSource {
  if (chatTemplate !== undefined) return chatTemplate;
  if (family.isBundledFormat) return bundledChatTemplate;
  throw new ConfigurationError(
    `Cannot render for model family "${family.name}" without its chat template: pass the one in the model folder ` +
      "(chat_template.jinja, or chat_template in tokenizer_config.json).",
  );
}

/**
 * Index at which the text of the first `count` messages ends and that of later ones begins. Text of
 * a message that is repeated inside a later one, such as the name of a call in its result, is
 * ignored. `moved`: a message that the template writes before one of them.
 */
export function historyEnd(
  segments: readonly TemplateSegment[],
  count: number,
): { readonly end: number; readonly moved: number | null } {
  const firstNew = segments.findIndex(({ message }) => message !== null && message >= count);
  const before = firstNew === -1 ? segments : segments.slice(0, firstNew);
  const isOfHistory = ({ message }: TemplateSegment): boolean => message !== null && message < count;
  const seen = new Set(before.map(({ message }) => message));
  const isMoved = segments.some((segment) => isOfHistory(segment) && !seen.has(segment.message));
  return { end: before.findLastIndex(isOfHistory), moved: isMoved ? segments[firstNew]!.message : null };
}

/** The text that the template writes before an action. */
function generationPrompt(segments: readonly TemplateSegment[]): string {
  return segmentsText(segments.slice(segments.findLastIndex(({ message }) => message !== null) + 1));
}

/**
 * The missing end of a text that stops inside its thinking: the closing tag, in lines as templates
 * write it. "" for any other text, and for families whose thinking has no pair of tags. A call ends
 * the thinking that contains it.
 */
function thoughtEndOf(
  parser: ReasoningParser | null,
  prompt: string,
  callOpening: string | null,
): (text: string) => string {
  const [start, end, ...others] = parser?.markers ?? [];
  if (start === undefined || end === undefined || others.length > 0) return () => "";
  const isOpened = prompt.trimEnd().endsWith(start);
  return (text) => {
    const opened = Math.max(text.lastIndexOf(start), isOpened ? 0 : -1);
    if (opened === -1 || text.lastIndexOf(end) >= opened) return "";
    if (callOpening !== null && text.includes(callOpening, opened)) return "";
    return `${text.endsWith("\n") ? "" : "\n"}${end}\n\n`;
  };
}

type ChosenParsers = {
  readonly toolCalls: ToolCallParser;
  readonly reasoning: ReasoningParser | null;
  /** False if no known parser reads the calls of the template. */
  readonly isKnown: boolean;
};

/**
 * The parsers that the options name. Default: the family's, or those of the checkpoint's own
 * response template if the family has no known one.
 */
function chosenParsers(family: RendererFamily, options: RendererOptions): ChosenParsers {
  const isUnread = family.toolCallBasis === "unread" && options.toolCallParser === undefined;
  const usesOwn = isUnread && options.responseTemplate !== undefined;
  const calls = usesOwn ? responseTemplateName : (options.toolCallParser ?? family.toolCallParser);
  const thoughts =
    usesOwn && options.reasoningParser === undefined
      ? responseTemplateName
      : chosenReasoningParser(options.reasoningParser, family.reasoningParser);
  const own = [calls, thoughts].some(isResponseTemplate) ? options.responseTemplate?.() : null;
  if (own === undefined) {
    throw new ConfigurationError(
      `Cannot read actions of "${family.name}" with a response template: its checkpoint has none (response_template in ` +
        "tokenizer_config.json); name another parser.",
    );
  }
  return {
    toolCalls: own !== null && isResponseTemplate(calls) ? own.toolCallParser : toolCallParser(calls),
    reasoning:
      own !== null && isResponseTemplate(thoughts)
        ? own.reasoningParser
        : thoughts === null
          ? null
          : reasoningParser(thoughts),
    isKnown: !isUnread || usesOwn,
  };
}

function unreadCallsError(family: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot give tools to "${family}": no parser is known for the call format of its chat template; name one ` +
      "(--tool-parser, toolCallParser), or use the strategy act or react.",
  );
}

/** If the generation prompt opens the thinking, actions begin inside it and hold no opening tag. */
function openedReasoning(parser: ReasoningParser | null, prompt: string): ReasoningParser | null {
  const start = parser?.markers[0];
  if (parser === null || start === undefined || !prompt.trimEnd().endsWith(start)) return parser;
  return { ...parser, split: (text) => parser.split(text, { forceReasoning: true }) };
}

/** The name of the requested parser, `null` for "none"; the usual one if none is requested. */
export function chosenReasoningParser(requested: string | undefined, usual: string | null): string | null {
  if (requested === undefined) return usual;
  return requested === "none" ? null : requested;
}

/** ISO without a zone, in the zone of this machine. */
function localTime(date: Date): string {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function requireToken(family: RendererFamily, tokenizer: Tokenizer, text: string): number {
  const id = tokenizer.tokenId(text);
  if (id !== null) return id;
  throw new ConfigurationError(
    `Cannot render for model family "${family.name}" with tokenizer "${tokenizer.name}": it has no token "${text}"; ` +
      "use the tokenizer of a model of this family.",
  );
}

/**
 * The control tokens with several names, by the name that the tokenizer has. Throws a
 * `ConfigurationError` when it has none.
 */
export function tokenNames(family: RendererFamily, tokenizer: Tokenizer): Map<string, string> {
  return new Map(
    Array.from(family.spellings, ([name, spellings]) => {
      const known = spellings.find((text) => tokenizer.tokenId(text) !== null) ?? spellings[0]!;
      requireToken(family, tokenizer, known);
      return [name, known] as const;
    }),
  );
}

function checkVocabulary(tokens: Uint32Array, vocabularySize: number, tokenizer: Tokenizer): void {
  const beyond = tokens.find((id) => id >= vocabularySize);
  if (beyond === undefined) return;
  throw new AttributedError({
    boundary: "renderer",
    code: "token-beyond-vocabulary",
    message:
      `Cannot send a prompt: "${tokenizer.decode([beyond])}" is token ${beyond} of tokenizer "${tokenizer.name}", but the ` +
      `model only knows ids below ${vocabularySize} (vocab_size of its config.json); use the tokenizer that belongs to the model.`,
    retryable: false,
    cause: null,
  });
}

/** Variables of the options, including the switch for thinking. */
function templateVariables(
  family: RendererFamily,
  known: readonly string[],
  { thinking, templateKwargs = new Map() }: RendererOptions,
): JsonObject {
  const unread = [...templateKwargs.keys()].filter((name) => !known.includes(name));
  if (unread.length > 0) {
    throw new ConfigurationError(
      `Cannot set ${unread.map((name) => `"${name}"`).join(", ")} for model family "${family.name}": its chat template does not read it; ` +
        `it reads ${known.map((name) => `"${name}"`).join(", ") || "no variables"}.`,
    );
  }
  const switches = thinkingVariables(family, thinking);
  for (const [name, value] of switches) {
    if (templateKwargs.has(name) && templateKwargs.get(name) !== value) {
      throw new ConfigurationError(
        `Cannot switch thinking for model family "${family.name}": the variable "${name}" is set to another value; remove one of them.`,
      );
    }
  }
  return new Map([...templateKwargs, ...switches]);
}

function thinkingVariables(family: RendererFamily, thinking: boolean | undefined): JsonObject {
  if (thinking === undefined) return new Map();
  if (family.thinkingVariable !== null) return new Map([[family.thinkingVariable, thinking]]);
  throw new ConfigurationError(
    `Cannot switch thinking for model family "${family.name}": its chat template has no such switch; remove the option.`,
  );
}

/** Names the first message that the template now writes differently. */
function rewriteReason(family: string, segments: readonly TemplateSegment[], seen: string): string {
  let offset = 0;
  for (const { message, text } of segments) {
    if (!seen.startsWith(text, offset)) {
      const place = message === null ? "text outside the messages" : `message ${message}`;
      return `the chat template of "${family}" rewrites ${place}`;
    }
    offset += text.length;
  }
  return `the chat template of "${family}" shortens the history`;
}
