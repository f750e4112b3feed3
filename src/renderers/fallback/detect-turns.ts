// Which tokens open and close the turns of a template, found by rendering a question and an answer. Conservative: a token is
// believed only when the tokenizer marks it as special.

import type { Tokenizer } from "../../core/index.ts";
import { segmentsText, type TemplateSegment } from "../chat-template.ts";
import { callMessage, probeWords, resultMessage, type TemplateProber } from "./template-prober.ts";

export type DetectedTurns = {
  /** `null`: nothing special stands in the text. */
  readonly startToken: string | null;
  /** `null`: an answer ends with the token that opens the next message, or with none that can be told. */
  readonly endToken: string | null;
  /** What stands between the end token and the next message. */
  readonly closing: string;
  /** Tokens that open what follows an answer, where the answer has no end of its own. */
  readonly openers: readonly string[];
};

/** `null` when the template refuses a question with an answer. */
export function detectTurns(prober: TemplateProber, tokenizer: Tokenizer): DetectedTurns | null {
  const question = { role: "user", content: probeWords.question };
  const answer = { role: "assistant", content: probeWords.answer };
  const closed = prober.render([question, answer]);
  if (closed === null) return null;
  const tail = textAfter(segmentsText(closed), probeWords.answer);
  const endToken = leadingSpecial(tail, tokenizer);
  const followed = prober.render([question, answer, { role: "user", content: probeWords.next }]);
  const next = followed === null ? "" : textAfter(segmentsText(followed), probeWords.answer);
  return {
    startToken: startToken(followed ?? closed, tokenizer),
    endToken,
    closing: endToken === null ? "" : tail.slice(endToken.length),
    openers: endToken === null && tail === "" ? distinct([next, textAfterCall(prober)], tokenizer) : [],
  };
}

/** The special token that a text begins with. */
export function leadingSpecial(text: string, tokenizer: Tokenizer): string | null {
  const [id] = tokenizer.encode(text);
  if (id === undefined || !tokenizer.isSpecial(id)) return null;
  const token = tokenizer.decode([id]);
  return text.startsWith(token) ? token : null;
}

/** The first special token of the last message, else of the whole text. */
function startToken(segments: readonly TemplateSegment[], tokenizer: Tokenizer): string | null {
  const last = Math.max(...segments.map(({ message }) => message ?? -1));
  const ofMessage = segmentsText(segments.filter(({ message }) => message === last));
  return firstSpecial(ofMessage, tokenizer) ?? firstSpecial(segmentsText(segments), tokenizer);
}

function firstSpecial(text: string, tokenizer: Tokenizer): string | null {
  const id = tokenizer.encode(text).find((candidate) => tokenizer.isSpecial(candidate));
  return id === undefined ? null : tokenizer.decode([id]);
}

/** What the template writes for a tool result, as far as it can be told apart from the call before it. */
function textAfterCall(prober: TemplateProber): string {
  const messages = [{ role: "user", content: probeWords.question }, callMessage(), resultMessage];
  const segments = prober.render(messages, { withTool: true }) ?? [];
  return segmentsText(segments.filter(({ message }) => message === 2));
}

function textAfter(text: string, words: string): string {
  const at = text.lastIndexOf(words);
  return at === -1 ? "" : text.slice(at + words.length);
}

function distinct(texts: readonly string[], tokenizer: Tokenizer): string[] {
  const tokens = texts.map((text) => leadingSpecial(text, tokenizer)).filter((token) => token !== null);
  return [...new Set(tokens)];
}
