// A renderer family for any Hugging Face chat template: rendered by its own Jinja program, its turns and parsers found by
// asking it. It knows less than a native family, so it never appends without comparing: see `history` in `RendererFamily`.

import { ConfigurationError, type Tokenizer } from "../../core/index.ts";
import { type ReasoningParser, reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { type ChatTemplate, ChatTemplateError, segmentsText } from "../chat-template.ts";
import { compileChatTemplate } from "../jinja/compile-chat-template.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { templateFingerprint } from "../template-fingerprint.ts";
import { detectReasoningParser, detectToolCallParser, writtenCall } from "./detect-parsers.ts";
import { type DetectedTurns, detectTurns } from "./detect-turns.ts";
import { structuredHistory } from "./structured-calls.ts";
import { probeWords, TemplateProber } from "./template-prober.ts";

export type FallbackFamilyOptions = {
  readonly tokenizer: Tokenizer;
  /** The Jinja program. */
  readonly chatTemplate: string;
  /** `bos_token`, `eos_token`, ... of tokenizer_config.json. Default: none, which templates write as nothing. */
  readonly specialTokens?: ReadonlyMap<string, string>;
  /** Tokens that stop sampling beside those that are found. Default none. */
  readonly stopTokens?: readonly string[];
  /** Name of the tool-call parser. Default: one that reads back a call as the template writes it, else `qwen25`. */
  readonly toolCallParser?: string;
  /** Name of the reasoning parser, or "none". Default: by the tags in the template. */
  readonly reasoningParser?: string;
};

/**
 * The family of a chat template. Throws a `ConfigurationError` for a template that cannot be compiled, that refuses a
 * question with an answer, or that writes no special token of the tokenizer.
 */
export function familyFromTemplate(options: FallbackFamilyOptions): RendererFamily {
  const name = `template-${templateFingerprint(options.chatTemplate)}`;
  try {
    return describeTemplate(name, options);
  } catch (error) {
    if (error instanceof ChatTemplateError) throw refusal(name, error.message, error);
    throw error;
  }
}

function describeTemplate(name: string, options: FallbackFamilyOptions): RendererFamily {
  const { chatTemplate, tokenizer } = options;
  const specialTokens = new Map(options.specialTokens ?? []);
  const template = compileChatTemplate(chatTemplate);
  const prober = probe(name, template, specialTokens);
  const turns = detectTurns(prober, tokenizer);
  if (turns === null) throw refusal(name, "it refuses a question with an answer");
  const eosToken = specialTokens.get("eos_token") ?? null;
  const startToken = turns.startToken ?? turns.endToken ?? eosToken;
  if (startToken === null) {
    throw refusal(name, `it writes no special token of tokenizer "${tokenizer.name}"; give the tokenizer of its model`);
  }
  const call = writtenCall(prober, turns);
  const calls =
    options.toolCallParser === undefined
      ? detectToolCallParser(call, chatTemplate)
      : toolCallParser(options.toolCallParser);
  return {
    ...familyDefaults,
    name,
    template,
    startToken,
    endToken: turns.endToken,
    closing: turns.closing,
    stopTokens: stopTokens(turns, [...(eosToken === null ? [] : [eosToken]), ...(options.stopTokens ?? [])]),
    history: "unproven",
    reasoningParser: chooseReasoningParser(options),
    toolCallParser: calls,
    restate: structuredHistory(prober, { writtenCall: call, parser: calls }) ?? familyDefaults.restate,
    thinkingVariable: detectThinkingVariable(prober),
    specialTokens,
    noTools: prober.noTools,
  };
}

function probe(name: string, template: ChatTemplate, specialTokens: ReadonlyMap<string, string>): TemplateProber {
  try {
    return new TemplateProber(template, new Map(specialTokens));
  } catch (error) {
    if (error instanceof ChatTemplateError) throw refusal(name, `it refuses a question: ${error.message}`, error);
    throw error;
  }
}

function refusal(name: string, state: string, cause?: ChatTemplateError): ConfigurationError {
  const message = `Cannot make a renderer from chat template "${name}": ${state.replace(/\.$/, "")}.`;
  return new ConfigurationError(message, cause === undefined ? undefined : { cause });
}

/** The end of an answer, else what opens the next message; then the tokenizer's own end and what the caller adds. */
function stopTokens({ endToken, openers }: DetectedTurns, further: readonly string[]): string[] {
  return [...new Set([...(endToken === null ? openers : [endToken]), ...further])];
}

function chooseReasoningParser({ chatTemplate, reasoningParser: name }: FallbackFamilyOptions): ReasoningParser | null {
  if (name === undefined) return detectReasoningParser(chatTemplate);
  return name === "none" ? null : reasoningParser(name);
}

/** The switch that changes what stands before an action. */
function detectThinkingVariable(prober: TemplateProber): RendererFamily["thinkingVariable"] {
  const prompt = (variable: string, isOn: boolean): string =>
    segmentsText(
      prober.render([{ role: "user", content: probeWords.question }], {
        addGenerationPrompt: true,
        kwargs: { [variable]: isOn },
      }) ?? [],
    );
  const variables = ["enable_thinking", "thinking"] as const;
  return variables.find((variable) => prompt(variable, true) !== prompt(variable, false)) ?? null;
}
