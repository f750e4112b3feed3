// Splits reasoning from the reply of a model behind an API, by the tags of any model family;
// simulated users, agents and judges all use this. A server that splits reasoning itself leaves
// none here; others pass on the raw output, and if the opening tag is in the model's prompt, the
// reply begins inside its reasoning. Replies of the policy are parsed by the parser of its family
// instead (`parsers/`), because they must be parsed like a server of that family does.

/** Opening and closing tags of reasoning, as sources of case-insensitive regular expressions. */
type ReasoningTags = {
  readonly open: string;
  readonly close: string;
  /**
   * The tag that ends reasoning without an opening tag; `null` if it could be part of the answer.
   * Never matches an empty string.
   */
  readonly lone: string | null;
  /**
   * Text by which a reply that begins like this, and is whole but not closed, is known to be
   * reasoning all the same, for openings in plain words, which may also begin an answer;
   * `null` for a tag, which always opens reasoning.
   */
  readonly proof: RegExp | null;
};

const tags = (open: string, close: string, lone: string | null = close): ReasoningTags => ({
  open,
  close,
  lone,
  proof: null,
});

/** An opening in plain words at the start of a reply. */
const phrase = (open: string, close: string, lone: string | null = close, proof = /(?!)/): ReasoningTags => ({
  ...tags(`^\\s{0,200}${open}`, close, lone),
  proof,
});

/**
 * The channel without its special tokens runs into the next word, or is followed by another
 * message.
 */
const bareChannel = /^\s*analysis[A-Z][a-z']*[\s,]|assistant\s{0,8}(?:analysis|commentary)/;

/**
 * Names of tags in angle brackets, with optional prefix or suffix (`<mm:think>`,
 * `<ifm|think_fast>`).
 */
const named = ["think", "thinking", "thoughts?", "reasoning", "reflection", "scratchpad"].map((name) => {
  const tag = `(?:[\\w-]{1,32}[:|])?${name}(?:[_:|][\\w-]{1,32})?(?:\\s[^<>]{0,200})?>`;
  return tags(`<${tag}`, `</${tag}`);
});

/** The header of a harmony message that names its channel. */
const channel = (name: string): string =>
  `(?:<\\|start\\|>\\w{0,32})?<\\|channel\\|>\\s{0,8}${name}\\b[^<]{0,200}(?:<\\|constrain\\|>\\w{0,32}\\s{0,8})?<\\|message\\|>`;

/** The header of a harmony message that names no channel. */
const nextMessage = "(?:<\\|start\\|>assistant(?!\\s{0,8}(?:<\\|channel\\|>|to=)))?";

const families: readonly ReasoningTags[] = [
  ...named,
  // Kimi, Magistral, Command, Apertus, OpenThinker, PLaMo 3.
  tags("◁think▷", "◁/think▷"),
  tags("\\[think\\]", "\\[/think\\]"),
  tags("<\\|start_thinking\\|>", "<\\|end_thinking\\|>"),
  tags("<\\|inner_prefix\\|>", "<\\|inner_suffix\\|>"),
  tags("<\\|begin_of_thought\\|>", "<\\|end_of_thought\\|>"),
  tags("<\\|plamo:begin_think:plamo\\|>", "<\\|plamo:end_think:plamo\\|>"),
  // Kimi K3, Gemma 4, Inkling, Muse.
  tags("<\\|open\\|>think<\\|sep\\|>", "<\\|close\\|>think<\\|sep\\|>"),
  tags("<\\|channel>(?:thought\\b)?", "<channel\\|>"),
  tags("<\\|content_thinking\\|>", "<\\|end_message\\|>|(?=<\\|content_text\\|>)", null),
  tags("(?:<\\|start\\|>assistant)?\\s{0,8}to=self<\\|message\\|>", "<\\|eom\\|>"),
  // gpt-oss and Beam, with and without their special tokens.
  tags(
    channel("analysis"),
    `<\\|end\\|>${nextMessage}|(?=${channel("(?:final|commentary)")})`,
    `<\\|end\\|>(?=<\\|start\\|>)${nextMessage}`,
  ),
  phrase("analysis(?=[\\w\"'(])", "assistant\\s{0,8}final", undefined, bareChannel),
  // Apriel, Granite.
  phrase("here are my reasoning steps:", "\\[begin final response\\]"),
  phrase("(?:here is|here's) my thought process:", "(?:here is|here's) my response:", null),
];

/** Tags around the answer: neither reasoning nor answer text. */
const frames = [
  channel("(?:final|commentary)"),
  "<\\|(?:return|eom|eot|content_text|end_message|content_model_end_sampling)\\|>",
  "<\\|(?:start|end)_(?:text|response)\\|>",
  "<\\|(?:begin|end)_of_solution\\|>",
  "(?:<\\|start\\|>assistant)?\\s{0,8}to=user<\\|message\\|>",
  "<\\|(?:open|close)\\|>(?:response|message)<\\|sep\\|>",
  "\\[end final response\\]",
  "<\\|end\\|>",
].join("|");

function nextMatch(pattern: RegExp, text: string, from: number): RegExpExecArray | null {
  pattern.lastIndex = from;
  return pattern.exec(text);
}

const closings = families.map(({ close }) => new RegExp(close, "gi"));

/** The matching group identifies the mark: an opening or a lone closing tag of a family, or a frame. */
const marks = new RegExp(
  [
    ...families.map(({ open }) => `(${open})`),
    ...families.map(({ lone }) => `(${lone ?? "(?!)"})`),
    `(${frames})`,
  ].join("|"),
  "gi",
);

export type SplitReply = {
  /** `null` if the reply has no reasoning. */
  readonly reasoning: string | null;
  /**
   * The answer text, trimmed if anything was split off; otherwise the unchanged reply. May be
   * empty.
   */
  readonly content: string;
};

export type SplitOptions = {
  /**
   * True if the reply ended at the length limit: then an opening in plain words that is not closed
   * also opens reasoning. Default false.
   */
  readonly isTruncated?: boolean;
};

/**
 * Splits all reasoning off a reply: between tags, before a closing tag without an opening tag, and
 * from an unclosed opening tag to the end. Plain words such as "Here's my thought process:" open
 * reasoning only if the reply closes it, or was cut off before it could.
 */
export function splitReasoning(reply: string, { isTruncated = false }: SplitOptions = {}): SplitReply {
  const reasoning: string[] = [];
  let content = "";
  let from = 0;
  let isMarked = false;
  /** True after a frame, which marks the text up to any end as the answer. */
  let isFramed = false;
  const say = (text: string): void => {
    // Whitespace remains on only one side of a removed part.
    content += /(?:^|\s)$/.test(content.slice(-1)) ? text.trimStart() : text;
  };
  for (;;) {
    marks.lastIndex = from;
    const mark = marks.exec(reply);
    if (mark === null) break;
    const which = mark.findIndex((group, index) => index > 0 && group !== undefined) - 1;
    const end = mark.index + mark[0].length;
    const isFrame = which >= 2 * families.length;
    const closed = which < families.length ? nextMatch(closings[which]!, reply, end) : null;
    const proof = families[which]?.proof ?? null;
    if (proof !== null && closed === null && !isTruncated && !proof.test(reply)) {
      say(reply.slice(from, end));
      from = end;
      continue;
    }
    isMarked = true;
    if (which >= families.length && !isFrame && !isFramed) {
      // The text since the last tag was assumed to be the answer, but was reasoning.
      reasoning.push(content + reply.slice(from, mark.index));
      content = "";
      from = end;
      continue;
    }
    say(reply.slice(from, mark.index));
    from = end;
    isFramed = isFrame;
    if (which >= families.length) continue;
    reasoning.push(reply.slice(end, closed?.index));
    from = closed === null ? reply.length : closed.index + closed[0].length;
  }
  if (!isMarked) return { reasoning: null, content: reply };
  say(reply.slice(from));
  const thoughts = reasoning.filter((part) => part.trim() !== "");
  return { reasoning: thoughts.length === 0 ? null : thoughts.join("\n\n"), content: content.trim() };
}
