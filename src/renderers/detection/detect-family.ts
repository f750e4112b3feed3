// The facts of a chat template that is not in the table, detected by rendering small conversations
// with it: its tokens, its parsers, its switch for thinking. Less is known than for a row of the
// table, so a detected family never appends without comparing: see `history` in `RendererFamily`.

import type { Tokenizer } from "../../core/index.ts";
import { isResponseTemplate, reasoningParser, toolCallParser } from "../../parsers/on-demand.ts";
import { restateCalls } from "../calls-in-history.ts";
import { type TemplateSegment, type TemplateSource } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { rendererFamily } from "../families.ts";
import { familyDefaults, type RendererFamily, wireMessageInParts } from "../renderer-family.ts";
import { chosenReasoningParser } from "../template-renderer.ts";
import { compiledTemplate, templateName, templateRefusal, unlessRefused } from "../template-text.ts";
import { detectReasoningParser, detectToolCallParser, readingParser, writtenCall } from "./detect-parsers.ts";
import {
  answer,
  callMessage,
  nextQuestion,
  probeContents,
  question,
  resultMessage,
  TemplateProber,
} from "./template-prober.ts";

export type DetectFamilyOptions = {
  readonly tokenizer: Tokenizer;
  /** The Jinja program, or an encoder. */
  readonly chatTemplate: TemplateSource;
  /**
   * `bos_token`, `eos_token`, ... of tokenizer_config.json. Default: none, which templates write as
   * empty text.
   */
  readonly specialTokens?: ReadonlyMap<string, string>;
  /** Tokens that stop sampling in addition to the detected ones. Default none. */
  readonly stopTokens?: readonly string[];
  /**
   * Name of the tool-call parser. Default: one that reads back a call as the template writes it, or as its prompt requests
   * it where the two differ; else by the markers in the template; `qwen25` only for a template that writes no calls and
   * shows no tools.
   */
  readonly toolCallParser?: string;
  /** Name of the reasoning parser, or "none". Default: detected from the tags in the template. */
  readonly reasoningParser?: string;
};

/**
 * The family of a chat template. Throws a `ConfigurationError` for a template that cannot be compiled, that refuses a
 * question with an answer, or that writes no special token of the tokenizer.
 */
export function familyFromTemplate(options: DetectFamilyOptions): RendererFamily {
  const { chatTemplate, tokenizer } = options;
  const specialTokens = new Map(options.specialTokens ?? []);
  const template = compiledTemplate(chatTemplate);
  // An encoder has no program text, and so no markers to detect.
  const program = typeof chatTemplate === "string" ? chatTemplate : "";
  const makeProber = (): TemplateProber => new TemplateProber(template, specialTokens);
  const prober = unlessRefused(chatTemplate, makeProber, "it refuses a question: ");
  const turns = detectTurns(prober, tokenizer);
  if (turns === null) throw templateRefusal(chatTemplate, "it refuses a question with an answer");
  const eosToken = specialTokens.get("eos_token") ?? null;
  const startToken = turns.startToken ?? turns.endToken ?? eosToken;
  if (startToken === null) {
    const state = `it writes no special token of tokenizer "${tokenizer.name}"; give the tokenizer of its model`;
    throw templateRefusal(chatTemplate, state);
  }
  const call = writtenCall(prober, turns);
  const { parser: calls, basis } =
    options.toolCallParser === undefined || isResponseTemplate(options.toolCallParser)
      ? detectToolCallParser(call, { chatTemplate: program, instructions: toolInstructions(prober), tokenizer })
      : { parser: toolCallParser(options.toolCallParser).name, basis: "named" as const };
  // The end of an answer, else the tokens that open the next message; then the tokenizer's own end
  // and the caller's additions.
  const ends = turns.endToken === null ? turns.openers : [turns.endToken];
  const further = [...(eosToken === null ? [] : [eosToken]), ...(options.stopTokens ?? [])];
  const reasoning = chosenReasoningParser(options.reasoningParser, detectReasoningParser(program));
  // An unknown name is refused here.
  if (reasoning !== null && !isResponseTemplate(reasoning)) reasoningParser(reasoning);
  const detected = {
    name: templateName(chatTemplate),
    fingerprints: [],
    history: "unproven",
    specialTokens,
    noTools: prober.noTools,
  } as const;
  if (basis === "unread" && reasoning === "gpt-oss") {
    // Channels can only be read together with the prompt's opening, and must be given as structure.
    const harmony = rendererFamily("gpt-oss");
    const stopTokens = [...new Set([...harmony.stopTokens, ...further])];
    return { ...harmony, ...detected, stopTokens, toolCallBasis: "family" };
  }
  const callEnd =
    basis === "written" && turns.endToken !== null ? detectCallEnd(prober, { call, turns, tokenizer }) : null;
  return {
    ...familyDefaults,
    ...detected,
    startToken,
    endToken: turns.endToken,
    closing: turns.closing,
    otherEnds: callEnd === null ? [] : [callEnd],
    stopTokens: [...new Set([...ends, ...(callEnd === null ? [] : [callEnd]), ...further])],
    reasoningParser: reasoning,
    toolCallParser: calls,
    toolCallBasis: basis,
    restate: detectRestating(prober, { call, calls }),
    thinkingVariable: detectThinkingVariable(prober),
    wire: prober.contents === "parts" ? wireMessageInParts : familyDefaults.wire,
  };
}

/** The switch that changes the text before an action. */
function detectThinkingVariable(prober: TemplateProber): RendererFamily["thinkingVariable"] {
  const prompt = (variable: string, isOn: boolean): string =>
    prober.text([question], { addGenerationPrompt: true, kwargs: { [variable]: isOn } });
  const variables = ["enable_thinking", "thinking"] as const;
  return variables.find((variable) => prompt(variable, true) !== prompt(variable, false)) ?? null;
}

/**
 * The special token that ends a call, if it is not the one that ends an answer: the token that
 * opens the results, written after the call or as the last token of the call. `null` if a call ends
 * as an answer does.
 */
function detectCallEnd(
  prober: TemplateProber,
  { call, turns, tokenizer }: { readonly call: string; readonly turns: DetectedTurns; readonly tokenizer: Tokenizer },
): string | null {
  const text = segmentsText(prober.render([question, callMessage(), resultMessage], { withTool: true }) ?? []);
  const bare = call.trim();
  const at = text.lastIndexOf(bare);
  if (at === -1) return null;
  const after = text.slice(at + bare.length, Math.max(at + bare.length, text.lastIndexOf(probeContents.result)));
  // A token that closes a section of calls is followed by the end of the answer, or by the opening
  // of the results.
  const opensResult = (rest: string): boolean => {
    const next = leadingSpecial(rest.trimStart(), tokenizer);
    return !rest.includes(turns.endToken ?? "\0") && (next === null || next === turns.startToken);
  };
  const last = trailingSpecial(bare, tokenizer);
  if (last !== null && opensResult(after) && readsWithout(call, last)) return last;
  const next = leadingSpecial(after.trimStart(), tokenizer);
  if (next === null || next === turns.endToken || next === turns.startToken) return null;
  return opensResult(after.trimStart().slice(next.length)) ? next : null;
}

function trailingSpecial(text: string, tokenizer: Tokenizer): string | null {
  const id = tokenizer.encode(text).at(-1);
  if (id === undefined || !tokenizer.isSpecial(id)) return null;
  return tokenizer.decode([id]);
}

/** True if a parser reads the call without the token at its end. */
function readsWithout(call: string, end: string): boolean {
  return readingParser(call.trim().slice(0, -end.length)) !== undefined;
}

/** The part of a prompt that the template writes only if there are tools. */
function toolInstructions(prober: TemplateProber): string {
  const [text, bare] = [true, false].map((withTool) =>
    prober.text([question], { withTool, addGenerationPrompt: true }),
  ) as [string, string];
  const start = commonStart(text, bare).length;
  let end = text.length;
  while (end > start && text[end - 1] === bare[bare.length - 1 - (text.length - end)]) end--;
  return text.slice(start, end);
}

/**
 * Some templates refuse or omit a result, or the messages after it, unless the message before it
 * holds its call as structure, or refuse the ids that the loop gives to calls.
 */
function detectRestating(
  prober: TemplateProber,
  { call, calls }: { readonly call: string; readonly calls: string },
): RendererFamily["restate"] {
  const isRefused = (messages: readonly object[]): boolean => {
    const text = segmentsText(prober.render(messages, { withTool: true }) ?? []);
    const expected = messages.some((message) => message === resultMessage || message === ownResult)
      ? probeContents.result
      : "";
    return text === "" || !text.includes(expected);
  };
  const asText = { role: "assistant", content: call };
  if (
    !isRefused([question, asText, ownResult, answer]) ||
    isRefused([question, callMessage(), resultMessage, answer])
  ) {
    return familyDefaults.restate;
  }
  return restateCalls(calls, { always: isRefused([question, asText, nextQuestion]) });
}

/** A result with the id that the loop gives to a call. */
const ownResult = { ...resultMessage, tool_call_id: "call_0_0" };

export type DetectedTurns = {
  /** `null` if the text has no special token. */
  readonly startToken: string | null;
  /**
   * `null` if an answer ends with the token that opens the next message, or with none that can be
   * recognised.
   */
  readonly endToken: string | null;
  /** Text between the end token and the next message. */
  readonly closing: string;
  /** Tokens that open the messages after an answer, if the answer has no end of its own. */
  readonly openers: readonly string[];
};

/**
 * Only tokens that the tokenizer marks as special count. `null` if the template refuses a question
 * with an answer.
 */
function detectTurns(prober: TemplateProber, tokenizer: Tokenizer): DetectedTurns | null {
  const closed = prober.render([question, answer]);
  if (closed === null) return null;
  const tail = textAfter(segmentsText(closed), probeContents.answer);
  const followed = prober.render([question, answer, nextQuestion]);
  const next = followed === null ? "" : textAfter(segmentsText(followed), probeContents.answer);
  const inHistory = answerTail(followed) ?? tail;
  const end =
    lastSpecial(commonStart(tail, inHistory), tokenizer) ??
    // Some templates close an answer only if something follows it.
    lastSpecial(tail === "" ? inHistory : tail, tokenizer);
  const written = tail === "" ? inHistory : tail;
  return {
    startToken: openerOfMessages(followed ?? closed, tokenizer),
    endToken: end?.token ?? null,
    closing: end === null ? "" : written.slice(end.end),
    openers: end === null && tail === "" ? distinct([next, textAfterCall(prober)], tokenizer) : [],
  };
}

/**
 * Text that the template writes for an answer after its content, if a question follows; `null` if
 * it refuses that.
 */
function answerTail(followed: readonly TemplateSegment[] | null): string | null {
  if (followed === null) return null;
  const next = followed.findIndex(({ message }) => message === 2);
  return textAfter(segmentsText(next === -1 ? followed : followed.slice(0, next)), probeContents.answer);
}

function commonStart(left: string, right: string): string {
  let length = 0;
  while (length < left.length && left[length] === right[length]) length++;
  return left.slice(0, length);
}

/**
 * The last special token that the template writes after an answer: some close its text first, then
 * the message.
 */
function lastSpecial(tail: string, tokenizer: Tokenizer): { readonly token: string; readonly end: number } | null {
  const id = tokenizer.encode(tail).findLast((candidate) => tokenizer.isSpecial(candidate));
  if (id === undefined) return null;
  const token = tokenizer.decode([id]);
  const at = tail.lastIndexOf(token);
  return at === -1 ? null : { token, end: at + token.length };
}

/** The special token that a text begins with. */
function leadingSpecial(text: string, tokenizer: Tokenizer): string | null {
  const [id] = tokenizer.encode(text);
  if (id === undefined || !tokenizer.isSpecial(id)) return null;
  const token = tokenizer.decode([id]);
  return text.startsWith(token) ? token : null;
}

/** The first special token of the last message, else of the whole text. */
function openerOfMessages(segments: readonly TemplateSegment[], tokenizer: Tokenizer): string | null {
  const last = Math.max(...segments.map(({ message }) => message ?? -1));
  const ofMessage = segmentsText(segments.filter(({ message }) => message === last));
  return firstSpecial(ofMessage, tokenizer) ?? firstSpecial(segmentsText(segments), tokenizer);
}

function firstSpecial(text: string, tokenizer: Tokenizer): string | null {
  const id = tokenizer.encode(text).find((candidate) => tokenizer.isSpecial(candidate));
  return id === undefined ? null : tokenizer.decode([id]);
}

/**
 * Text that the template writes for a tool result, as far as it is separate from the call before
 * it.
 */
function textAfterCall(prober: TemplateProber): string {
  const segments = prober.render([question, callMessage(), resultMessage], { withTool: true }) ?? [];
  return segmentsText(segments.filter(({ message }) => message === 2));
}

function textAfter(text: string, part: string): string {
  const at = text.lastIndexOf(part);
  return at === -1 ? "" : text.slice(at + part.length);
}

function distinct(texts: readonly string[], tokenizer: Tokenizer): string[] {
  const tokens = texts.map((text) => leadingSpecial(text, tokenizer)).filter((token) => token !== null);
  return [...new Set(tokens)];
}
