// Reasoning in the reply of a model behind an API, found by the tags of any model family: the one place for simulated users, agents
// and judges. A server that splits reasoning off leaves none here; others pass on what the model wrote, and where the opening tag is
// in the model's prompt the reply begins inside its reasoning. Replies of the policy are read by the parser of its family instead
// (`parsers/`): those must be read as a server of that family reads them.

/** Opening and closing tags of reasoning, as sources of regular expressions, compared without case. */
type ReasoningTags = {
  readonly open: string;
  readonly close: string;
  /** The tag that ends reasoning which nothing opened; `null` where that could be speech. Matches no empty text. */
  readonly lone: string | null;
};

const tags = (open: string, close: string, lone: string | null = close): ReasoningTags => ({ open, close, lone });

/** Names of tags in angle brackets, with or without a prefix or a suffix (`<mm:think>`, `<ifm|think_fast>`). */
const named = ["think", "thinking", "thoughts?", "reasoning", "reflection", "scratchpad"].map((name) => {
  const tag = `(?:[\\w-]{1,32}[:|])?${name}(?:[_:|][\\w-]{1,32})?(?:\\s[^<>]{0,200})?>`;
  return tags(`<${tag}`, `</${tag}`);
});

/** Where a harmony message says on which channel it is. */
const channel = (name: string): string =>
  `(?:<\\|start\\|>\\w{0,32})?<\\|channel\\|>\\s{0,8}${name}\\b[^<]{0,200}(?:<\\|constrain\\|>\\w{0,32}\\s{0,8})?<\\|message\\|>`;

const families: readonly ReasoningTags[] = [
  ...named,
  // Kimi, Magistral, Command, Apertus, OpenThinker.
  tags("◁think▷", "◁/think▷"),
  tags("\\[think\\]", "\\[/think\\]"),
  tags("<\\|start_thinking\\|>", "<\\|end_thinking\\|>"),
  tags("<\\|inner_prefix\\|>", "<\\|inner_suffix\\|>"),
  tags("<\\|begin_of_thought\\|>", "<\\|end_of_thought\\|>"),
  // Kimi K3, Gemma 4, Inkling, Muse.
  tags("<\\|open\\|>think<\\|sep\\|>", "<\\|close\\|>think<\\|sep\\|>"),
  tags("<\\|channel>(?:thought\\b)?", "<channel\\|>"),
  tags("<\\|content_thinking\\|>", "<\\|end_message\\|>|(?=<\\|content_text\\|>)", null),
  tags("(?:<\\|start\\|>assistant)?\\s{0,8}to=self<\\|message\\|>", "<\\|eom\\|>"),
  // gpt-oss, and the same without its special tokens.
  tags(channel("analysis"), `<\\|end\\|>|(?=${channel("(?:final|commentary)")})`, "<\\|end\\|>(?=<\\|start\\|>)"),
  tags("^\\s{0,200}analysis(?=[\\w\"'(])", "assistant\\s{0,8}final"),
  // Apriel, Granite.
  tags("^\\s{0,200}here are my reasoning steps:", "\\[begin final response\\]"),
  tags("^\\s{0,200}(?:here is|here's) my thought process:", "(?:here is|here's) my response:", null),
];

/** Frames of what is said: neither reasoning nor speech. */
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

const closings = families.map(({ close }) => new RegExp(close, "gi"));

/** The first group that matches says which it is: an opening or a lone closing tag of a family, or a frame. */
const marks = new RegExp(
  [
    ...families.map(({ open }) => `(${open})`),
    ...families.map(({ lone }) => `(${lone ?? "(?!)"})`),
    `(${frames})`,
  ].join("|"),
  "gi",
);

export type SplitReply = {
  /** `null`: the reply has none. */
  readonly reasoning: string | null;
  /** All that is said, trimmed where anything was split off; the reply as it is where nothing was. May be empty. */
  readonly content: string;
};

/**
 * Splits reasoning off a reply, wherever it is: between tags, before a closing tag that nothing opened, and from an opening tag that
 * nothing closes to the end.
 */
export function splitReasoning(reply: string): SplitReply {
  const reasoning: string[] = [];
  let content = "";
  let from = 0;
  let isMarked = false;
  /** True after a frame, which says that the text up to any end is speech. */
  let isFramed = false;
  const say = (text: string): void => {
    // A blank stands on one side of what was cut out.
    content += /(?:^|\s)$/.test(content.slice(-1)) ? text.trimStart() : text;
  };
  for (;;) {
    marks.lastIndex = from;
    const mark = marks.exec(reply);
    if (mark === null) break;
    isMarked = true;
    const which = mark.findIndex((group, index) => index > 0 && group !== undefined) - 1;
    const end = mark.index + mark[0].length;
    const isFrame = which >= 2 * families.length;
    if (which >= families.length && !isFrame && !isFramed) {
      // The text since the last tag was taken for speech, and was reasoning.
      reasoning.push(content + reply.slice(from, mark.index));
      content = "";
      from = end;
      continue;
    }
    say(reply.slice(from, mark.index));
    from = end;
    isFramed = isFrame;
    if (which >= families.length) continue;
    const closing = closings[which]!;
    closing.lastIndex = end;
    const closed = closing.exec(reply);
    reasoning.push(reply.slice(end, closed?.index));
    from = closed === null ? reply.length : closed.index + closed[0].length;
  }
  if (!isMarked) return { reasoning: null, content: reply };
  say(reply.slice(from));
  const thoughts = reasoning.filter((part) => part.trim() !== "");
  return { reasoning: thoughts.length === 0 ? null : thoughts.join("\n\n"), content: content.trim() };
}
