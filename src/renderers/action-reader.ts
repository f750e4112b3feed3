// Sampled tokens to reasoning, content and calls. Reasoning is split off first, as servers do: a call inside reasoning is a
// thought. Markers are tokens: `<tool_call>` spelled out by other tokens is text about a call, not a call. Text parsers cannot
// see that, so spelled-out markers are disguised before parsing and come back in the result.

import type { ParsedAction, ParseProblem, Renderer, Tokenizer } from "../core/index.ts";
import { pythonLstrip, pythonStrip } from "../python-semantics/index.ts";
import {
  type DetectedCall,
  parseAnyCalls,
  readOtherFormat,
  type ReasoningParser,
  type ReasoningSplit,
  type ToolCallParser,
  withExample,
} from "../parsers/on-demand.ts";

export type ActionReaderOptions = {
  readonly tokenizer: Tokenizer;
  readonly stopTokenIds: readonly number[];
  readonly toolCallParser: ToolCallParser;
  readonly reasoningParser: ReasoningParser | null;
  /**
   * "tokens": a marker counts only as its own token. "text": markers are read as servers' text
   * parsers read them.
   */
  readonly parseMode: "tokens" | "text";
  /**
   * Text that parsers see before an action, and the stop token after it. `null` if they see the
   * action without the stop token.
   */
  readonly frame: string | null;
  /** Recover calls from near-misses, reported as "repaired"; never in an incomplete action. Default false. */
  readonly repair?: boolean;
  /**
   * Parsers of other formats: repair mode carries out calls if a whole answer is written in one of
   * them. Default: none.
   */
  readonly otherParsers?: readonly ToolCallParser[];
};

export type ActionReader = (sampledTokens: Uint32Array, context: ActionContext) => ParsedAction;

type ActionContext = Parameters<Renderer["parseAction"]>[1];

type Ending = { readonly stop: string; readonly repair: boolean };

type Reading = Pick<ParsedAction, "reasoning" | "content" | "toolCalls" | "problems">;

export function createActionReader(options: ActionReaderOptions): ActionReader {
  const { tokenizer, stopTokenIds, toolCallParser, reasoningParser, frame } = options;
  const markers = new Map<string, number>();
  for (const marker of [...toolCallParser.markers, ...(reasoningParser?.markers ?? [])]) {
    const id = tokenizer.tokenId(marker);
    if (id !== null) markers.set(marker, id);
  }

  const readText = (
    action: string,
    { tools, turn, unknownTools = "loop", stop, repair }: ActionContext & Ending,
  ): Reading => {
    const text = frame === null ? action : frame + action + stop;
    const { reasoning, normalText } =
      reasoningParser === null ? { reasoning: "", normalText: text } : splitAction(reasoningParser, text);
    const parse =
      unknownTools === "environment"
        ? parseAnyCalls(toolCallParser, normalText, { tools, repair })
        : toolCallParser.parse(normalText, { tools, repair });
    const isEmpty = parse.calls.length + parse.problems.length === 0 && pythonStrip(parse.content) === "";
    // A block that its format omits if it does not end is neither thought nor answer, and may have
    // been a call.
    const isLost = isEmpty && stop !== "" && (frame !== null || reasoning === "");
    return {
      reasoning: reasoning === "" ? null : reasoning,
      content: parse.content,
      toolCalls: numbered(parse.calls, turn),
      problems: isLost ? toolCallParser.parse(text, { tools }).problems : parse.problems,
    };
  };

  /**
   * Reports a call in another format as a format error, if nothing else was read; in repair mode,
   * returns the call if there is only one reading.
   */
  const withOtherFormat = (action: ParsedAction, { tools, turn }: ActionContext, repair: boolean): ParsedAction => {
    const isSpoofed = action.problems.some(({ code }) => code === "spoofed-marker");
    if (action.toolCalls.length > 0 || isSpoofed || (action.problems.length > 0 && !repair)) return action;
    const otherParsers = repair ? (options.otherParsers ?? []) : [];
    const { isTerminated: isWhole } = action;
    const other = readOtherFormat(action.content, { tools, parser: toolCallParser.name, isWhole, otherParsers });
    if (other === null) return action;
    const { problem, form, calls } = other;
    if (repair && calls.length > 0) {
      const repaired: ParseProblem = { ...problem, code: "repaired", detail: `The call was written as ${form}.` };
      return { ...action, content: "", toolCalls: numbered(calls, turn), problems: [repaired, ...action.problems] };
    }
    return action.problems.length > 0 ? action : { ...action, problems: [problem] };
  };

  return (sampledTokens, context) => {
    const action = readTokens(sampledTokens, context);
    const repair = options.repair === true && action.isTerminated;
    const read = withOtherFormat(action, context, repair);
    if (read.problems.length === 0) return read;
    const { tools } = context;
    return { ...read, problems: read.problems.map((one) => withExample(one, toolCallParser.name, tools)) };
  };

  function readTokens(sampledTokens: Uint32Array, context: ActionContext): ParsedAction {
    const last = sampledTokens.at(-1);
    const isTerminated = last !== undefined && stopTokenIds.includes(last);
    const ids = isTerminated ? sampledTokens.subarray(0, -1) : sampledTokens;
    const decoded = tokenizer.decode(ids);
    const text = decoded.slice(0, context.textEnd);
    const repair = options.repair === true && isTerminated;
    const stop = isTerminated ? tokenizer.decode([last]) : "";
    const asText = readText(text, { ...context, stop, repair });
    const disguised = options.parseMode === "tokens" ? disguiseMarkers(ids, { tokenizer, decoded, markers }) : null;
    if (disguised === null) return { text, ...asText, isTerminated };
    // A disguise is as long as the text that it hides.
    const disguisedText = disguised.text.slice(0, context.textEnd);
    const asTokens = mapStrings(readText(disguisedText, { ...context, stop, repair }), (hidden) =>
      disguised.reveal(hidden),
    );
    if (isSameReading(asText, asTokens)) return { text, ...asTokens, isTerminated };
    const spoofed = [...new Set(disguised.spoofed)].map((marker): ParseProblem => ({
      code: "spoofed-marker",
      text: marker,
      toolName: null,
      detail: `"${marker}" is spelled out by several tokens; only the one token of that text counts.`,
    }));
    return { text, ...asTokens, problems: [...spoofed, ...asTokens.problems], isTerminated };
  }
}

function numbered(calls: readonly DetectedCall[], turn: number): ParsedAction["toolCalls"] {
  return calls.map(({ name, parameters }, index) => ({
    id: `call_${turn}_${index}`,
    name: name ?? "",
    argumentsText: parameters,
  }));
}

/**
 * Reasoning of an action. White space beside tags is layout that templates write and servers pass
 * on: it belongs neither to the reasoning nor to the content, and an opening tag after it still
 * opens the reasoning.
 */
function splitAction(parser: ReasoningParser, text: string): ReasoningSplit {
  if (!parser.hasTags) return parser.split(text);
  const bare = pythonLstrip(text);
  const split = parser.split(bare.startsWith(parser.markers[0]!) ? bare : text);
  if (split.normalText.length === text.length) return split;
  return { reasoning: pythonLstrip(split.reasoning), normalText: pythonStrip(split.normalText) };
}

/** The same record with every string in it changed. */
function mapStrings<T>(value: T, change: (text: string) => string): T {
  const changed = (inner: unknown): unknown => {
    if (typeof inner === "string") return change(inner);
    if (Array.isArray(inner)) return inner.map(changed);
    if (typeof inner !== "object" || inner === null) return inner;
    return Object.fromEntries(Object.entries(inner).map(([key, part]) => [key, changed(part)]));
  };
  return changed(value) as T;
}

function isSameReading(left: Reading, right: Reading): boolean {
  const relevant = ({ reasoning, content, toolCalls }: Reading): string =>
    JSON.stringify([reasoning, content, toolCalls]);
  return relevant(left) === relevant(right);
}

type Disguised = {
  /** The decoded text with each spelled-out marker's first character replaced. */
  readonly text: string;
  /** The spelled-out markers, in order. */
  readonly spoofed: readonly string[];
  reveal(text: string): string;
};

/** Disguises the markers in `ids` that are not the tokens they pretend to be; `null` when there are none. */
function disguiseMarkers(
  ids: Uint32Array,
  options: { readonly tokenizer: Tokenizer; readonly decoded: string; readonly markers: ReadonlyMap<string, number> },
): Disguised | null {
  const { tokenizer, decoded, markers } = options;
  const countOf = (id: number): number => ids.reduce((found, other) => (other === id ? found + 1 : found), 0);
  if (![...markers].some(([text, id]) => decoded.split(text).length - 1 > countOf(id))) return null;
  const escaped = [...markers.keys()].map((marker) => marker.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const pattern = new RegExp(escaped.join("|"), "g");
  const texts = new Map([...markers].map(([text, id]) => [id, text]));
  const stand = standIns(decoded, [...markers.keys()]);
  const spoofed: string[] = [];
  let text = "";
  let runStart = 0;
  const flush = (end: number): void => {
    const run = tokenizer.decode(ids.subarray(runStart, end));
    text += run.replace(pattern, (marker) => {
      spoofed.push(marker);
      return `${stand.get(marker[0]!)}${marker.slice(1)}`;
    });
  };
  ids.forEach((id, index) => {
    const marker = texts.get(id);
    if (marker === undefined) return;
    flush(index);
    text += marker;
    runStart = index + 1;
  });
  flush(ids.length);
  const reveal = (hidden: string): string =>
    [...stand].reduce((shown, [original, standIn]) => shown.replaceAll(standIn, original), hidden);
  return { text, spoofed, reveal };
}

/** Maps the first character of each marker to a private character that the text does not use. */
function standIns(text: string, markers: readonly string[]): Map<string, string> {
  const chosen = new Map<string, string>();
  let code = 0xe000;
  for (const first of new Set(markers.map((marker) => marker[0]!))) {
    while (text.includes(String.fromCharCode(code))) code++;
    chosen.set(first, String.fromCharCode(code++));
  }
  return chosen;
}
