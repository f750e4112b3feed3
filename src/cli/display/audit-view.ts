// An audit for people: the parts that render, the treatment of history, and the content that an
// answer loses when it is parsed and rendered again.

import type {
  Difference,
  HistoryChange,
  HistoryFinding,
  RoundTripFinding,
  TemplateAudit,
} from "../../renderers/index.ts";
import { type Colours, labelledRows } from "./terminal-text.ts";
import { tableRows, visibleLine } from "../../lib/text.ts";

export type AuditViewOptions = {
  /** The folder as the user named it. */
  readonly title: string;
  readonly colours: Colours;
};

/** Lines without line ends; apart from colours, no line depends on the width of the terminal. */
export function auditView(audit: TemplateAudit, { title, colours }: AuditViewOptions): string[] {
  return [
    colours.bold(title),
    "",
    ...rendererLines(audit, colours),
    ...findingLines(historyRows(audit.history), "when this is added | the template | the loop", colours),
    ...findingLines(roundTripRows(audit.roundTrips), "read and rendered again | the text | encoded whole", colours),
    ...listed("to know", audit.notes, colours.cyan),
    ...listed("to mend", audit.problems, colours.red),
    verdict(audit, colours),
  ];
}

function rendererLines({ renderer }: TemplateAudit, colours: Colours): string[] {
  if (renderer === null) return [];
  const { toolCallParser, reasoningParser, thinkingVariable, stopTokens } = renderer;
  const rows: [string, string][] = [
    ["renderer", `${renderer.family} (${renderer.kind}): ${renderer.because}`],
    [
      "calls",
      `${toolCallParser.name === null ? "no parser" : `parser ${toolCallParser.name}`}: ${toolCallParser.because}`,
    ],
    ["thinking", `${reasoningParser === null ? "none" : `parser ${reasoningParser}`}${thinkingVariable === null ? "" : `, switched by ${thinkingVariable}`}`], // prettier-ignore
    ["variables", renderer.variables.join(", ") || "none"],
    ["stops at", stopTokens.map(({ id, text }) => `${escaped(text)} ${id}`).join(", ") || "nothing"],
    ["answers follow", escaped(renderer.generationPrompt)],
  ];
  return [...labelledRows(rows, colours), ""];
}

type Row = {
  readonly cells: readonly string[];
  readonly isFine: boolean;
  readonly difference: Difference | null;
  readonly error: string | null;
};

const loopText = {
  extends: "appends it",
  "keeps-stream": "appends, and keeps what was",
  branches: "starts a branch",
  fails: "fails",
} as const;

function historyRows(history: readonly HistoryFinding[]): Row[] {
  return history.map(({ kind, template, loop, difference, error }) => ({
    cells: [
      kind,
      template === "refuses" ? "refuses it" : difference === null ? "keeps all" : changeText(difference.change),
      loopText[loop],
    ],
    isFine: template === "keeps" && loop === "extends",
    difference,
    error,
  }));
}

function roundTripRows(roundTrips: readonly RoundTripFinding[]): Row[] {
  return roundTrips.map(({ kind, outcome, difference, error, sameTokens }) => ({
    cells: [
      kind,
      outcome === "same"
        ? "the same"
        : outcome === "refused"
          ? "refused"
          : difference === null
            ? "not read"
            : changeText(difference.change),
      sameTokens ? "same tokens" : "other tokens",
    ],
    isFine: outcome === "same" && sameTokens,
    difference,
    error,
  }));
}

function changeText(change: HistoryChange): string {
  switch (change) {
    case "drops-thinking":
      return "drops the thinking";
    case "think-block":
      return "different think block";
    case "white-space":
      return "different white space";
    case "answer-end":
      return "ends it differently";
    case "rewrites-call":
      return "rewrites the call";
    case "drops-message":
      return "drops the message";
    case "moves-message":
      return "moves the message";
    case "moves-tools":
      return "moves the tools";
    case "rewrites-text":
      return "rewrites text";
    default:
      return change satisfies never;
  }
}

function findingLines(rows: readonly Row[], titles: string, colours: Colours): string[] {
  if (rows.length === 0) return [];
  const [header = [], ...lines] = tableRows(titles, rows.map(({ cells }) => cells)); // prettier-ignore
  const body = lines.flatMap((row, at) => {
    const { isFine, difference, error } = rows[at]!;
    const shown = isFine ? row : row.map(colours.yellow);
    if (error !== null) return [...shown, `    ${colours.dim(visibleLine(error))}`];
    if (difference === null) return shown;
    return [
      ...shown,
      `    ${colours.dim("was")}  ${escaped(difference.seen)}`,
      `    ${colours.dim("is")}   ${escaped(difference.written)}`,
    ];
  });
  return [...header.map(colours.dim), ...body, ""];
}

function listed(title: string, sentences: readonly string[], colour: (text: string) => string): string[] {
  if (sentences.length === 0) return [];
  return [colour(title), ...sentences.map((sentence) => `  - ${visibleLine(sentence)}`), ""];
}

function verdict({ renderer, isAppendOnly, problems }: TemplateAudit, colours: Colours): string {
  if (renderer === null) return colours.red("No renderer can be made of this template: a rollout would refuse it.");
  const history = isAppendOnly
    ? "Append-only: each turn costs its new tokens and reads as the template writes it."
    : renderer.historyPolicy === "branch"
      ? "Not append-only: where the template rewrites history, the loop starts a branch, which becomes a sample of its own."
      : "Not append-only: the loop keeps what was sampled and only appends; with --history branch it starts a branch instead.";
  return problems.length === 0 ? colours.green(history) : `${history} ${colours.red("Not fit for training yet.")}`;
}

/** A quoted string without invisible characters. */
function escaped(text: string): string {
  return visibleLine(JSON.stringify(text));
}
