// Audits a chat template with its tokenizer: which renderer the loop would use and why, what happens to history when
// messages are added, whether answers survive being read and rendered again, and what must be corrected before training. A pure
// function; the command `doctor template` reads the folder and prints what it returns.

import { ConfigurationError } from "../../core/index.ts";
import { AuditedTemplate, type AuditTemplateOptions } from "./audited-template.ts";
import { probeHistory, scenariosOf, systemInTheMiddle, probeRoundTrip, roundTripsOf } from "./probe-history.ts";
import { answerFrame, auditContents, type SampledAnswers, sampledAnswers } from "./sampled-answers.ts";
import { unwritableNames } from "../tool-names.ts";
import { findLostValues } from "./argument-values.ts";
import type {
  AuditedRenderer,
  HistoryFinding,
  RoundTripFinding,
  TemplateAudit,
  ValuesFound,
} from "./template-audit.ts";

/**
 * Examines a chat template. Never throws on one: if no renderer can be made of a template, the
 * audit says so as a problem.
 */
export function auditTemplate(options: AuditTemplateOptions): TemplateAudit {
  let audited: AuditedTemplate;
  try {
    audited = new AuditedTemplate(options);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return {
      renderer: null,
      isAppendOnly: false,
      history: [],
      roundTrips: [],
      values: null,
      notes: [],
      problems: [error.message],
    };
  }
  const refusal = toolRefusal(audited, options);
  if (refusal !== null) return refusal;
  const answers = sampledAnswers(audited);
  const probes = scenariosOf(answers).map((scenario) => probeHistory(audited, scenario));
  const history = probes.map(({ finding }) => finding);
  const roundTrips = roundTripsOf(answers).map(([kind, text]) => probeRoundTrip(audited, kind, text));
  const renderer = describeRenderer(audited, { options, answers });
  const isAppendOnly = history.every(({ template, kind }) => template === "keeps" || kind === systemInTheMiddle);
  const stray = probes.find((probe) => probe.stray !== null && !takesToolsAlong(probe.finding));
  const { family } = renderer;
  const problems = [
    renderer.stopTokens.length === 0 &&
      `Nothing stops sampling with "${family}": the tokenizer has none of its stop tokens; give the tokenizer of the model, ` +
        "or name its eos_token in tokenizer_config.json.",
    ...readingProblems(audited, { answers, roundTrips }),
    ...refusalProblems(history),
    audited.mismatch !== null && `The family "${family}" does not describe this template: ${audited.mismatch}.`,
    stray !== undefined &&
      `At "${stray.finding.kind}" the renderer appends ${JSON.stringify(stray.stray)}, which the template does not write.`,
    renderer.historyPolicy === "append-only" &&
      !isAppendOnly &&
      `The renderer "${family}" takes the template for append-only, which it is not.`,
  ].filter((problem) => problem !== false);
  const values = renderer.toolCallParser.name === null ? null : findLostValues(options);
  const notes = notesOf(audited, { renderer, answers, history, values });
  return { renderer, isAppendOnly, history, roundTrips, values, notes, problems };
}

/** The audit of a template that refuses every conversation with tools; `null` for others. */
function toolRefusal(audited: AuditedTemplate, options: AuditTemplateOptions): TemplateAudit | null {
  const opening = [{ role: "user", content: auditContents.question }] as const;
  const rendering = audited.render(opening, { addGenerationPrompt: true });
  if (rendering.type === "text") return null;
  const bare = new AuditedTemplate(options, []);
  const { generationPrompt } = answerFrame(bare, opening);
  const problem =
    `The template raises as soon as tools are given: ${rendering.error.message}. Use a template that takes tools, or the ` +
    "strategy act or react, which describe them in the guidelines.";
  return {
    renderer: describeRenderer(audited, {
      options,
      answers: { generationPrompt, otherCall: null, writesCalls: false },
    }),
    isAppendOnly: false,
    history: [],
    roundTrips: [],
    values: null,
    notes: [],
    problems: [problem],
  };
}

type Found = {
  readonly options: AuditTemplateOptions;
  readonly answers: Pick<SampledAnswers, "generationPrompt" | "otherCall" | "writesCalls">;
};

function describeRenderer(audited: AuditedTemplate, { options, answers }: Found): AuditedRenderer {
  const { family, renderer, tokenizer, parsers, parserBasis } = audited;
  const { toolCallParser, reasoningParser } = parsers;
  const markers = [...new Set([...(reasoningParser?.markers ?? []), ...toolCallParser.markers])];
  return {
    family: renderer.family,
    kind: audited.kind,
    because: becauseOf(audited, options),
    historyPolicy: renderer.historyPolicy,
    stopTokens: renderer.stopTokenIds.map((id) => ({ id, text: tokenizer.decode([id]) })),
    generationPrompt: answers.generationPrompt,
    thinkingVariable: family.thinkingVariable,
    variables: audited.variables,
    toolCallParser: {
      name: parserBasis === "unread" ? null : toolCallParser.name,
      because: parserReason(audited),
    },
    reasoningParser: reasoningParser?.name ?? null,
    markers: markers.map((text) => ({ text, isToken: tokenizer.tokenId(text.trim()) !== null })),
  };
}

function becauseOf({ kind }: AuditedTemplate, { renderer }: AuditTemplateOptions): string {
  if (renderer !== undefined && renderer !== null) return "it was named";
  return kind === "family"
    ? "the template is the published one of this family"
    : "the template is not a known one, so its facts are detected";
}

function parserReason({ parserBasis }: AuditedTemplate): string {
  switch (parserBasis) {
    case "family":
      return "the family's";
    case "named":
      return "it was named";
    case "written":
      return "it reads the call that the template writes";
    case "requested":
      return "the prompt requests its calls, although the template writes earlier calls in another way";
    case "marked":
      return "its markers occur in the template";
    case "assumed":
      return "assumed, because the template writes no calls and shows no tools";
    case "own":
      return "the checkpoint's own, which reads the calls of this template where no listed parser does";
    case "unread":
      return "none is known that reads the calls of this template";
    default:
      return parserBasis satisfies never;
  }
}

/**
 * Problems of a template whose output the parsers do not read back. A row of the table says how its
 * models write, regardless of their template.
 */
function readingProblems(
  { kind, parserBasis, parsers }: AuditedTemplate,
  { answers, roundTrips }: { readonly answers: SampledAnswers; readonly roundTrips: readonly RoundTripFinding[] },
): string[] {
  const { name: parser } = parsers.toolCallParser;
  const isUnread = (answer: string): boolean =>
    roundTrips.some((trip) => trip.kind === answer && trip.outcome === "unread");
  const written = answers.otherCall === null ? "" : ` It writes ${JSON.stringify(answers.otherCall)}.`;
  return [
    parserBasis === "unread" &&
      `No tool-call parser is known for this template.${written} Name one that reads its calls (--tool-parser), or use the ` +
        "strategy act or react.",
    kind === "template" &&
      (parserBasis === "marked" || parserBasis === "assumed") &&
      answers.otherCall !== null &&
      unreadCall(parser, answers.otherCall),
    parserBasis !== "unread" &&
      answers.isCallSpelled &&
      isUnread("call") &&
      `Parser "${parser}" does not read its own call: ${JSON.stringify(answers.call.body)}.`,
    answers.thought !== null &&
      isUnread("thinking and answer") &&
      `Thinking is not separated from content: ${JSON.stringify(answers.thought.body)}.`,
  ].filter((problem) => problem !== false);
}

function unreadCall(parser: string, call: string): string {
  return `Parser "${parser}" does not read a call as the template writes it: ${JSON.stringify(call)}.`;
}

/**
 * One problem for each reason. A refused system message in the middle is not a problem, as loops
 * add none.
 */
/**
 * True if a system message in the middle takes the tools along, because the template writes them
 * beside it.
 */
function takesToolsAlong({ kind, difference }: HistoryFinding): boolean {
  return kind === systemInTheMiddle && difference?.change === "moves-tools";
}

function refusalProblems(history: readonly HistoryFinding[]): string[] {
  const kinds = new Map<string, string[]>();
  for (const { kind, loop, error } of history) {
    if (loop !== "fails" || kind === systemInTheMiddle) continue;
    kinds.set(error ?? "", [...(kinds.get(error ?? "") ?? []), `"${kind}"`]);
  }
  return [...kinds].map(([error, names]) => `Episodes would fail at ${names.join(", ")}: ${error}`);
}

type Examined = {
  readonly renderer: AuditedRenderer;
  readonly answers: SampledAnswers;
  readonly history: readonly HistoryFinding[];
  readonly values: ValuesFound | null;
};

/** Names with the characters and beginnings that formats treat differently. */
const probedNames = ["my-tool", "my.tool", "my/tool", "my:tool", "my tool", "2nd_tool", "_tool", "größe"];

function notesOf(audited: AuditedTemplate, { renderer, answers, history, values }: Examined): string[] {
  const prompt = audited.render([{ role: "user", content: "?" }], { addGenerationPrompt: true });
  const unwritable = unwritableNames(audited.renderer, audited.tokenizer, probedNames).map((name) =>
    JSON.stringify(name),
  );
  const spelled = renderer.markers.filter(({ isToken }) => !isToken).map(({ text }) => JSON.stringify(text));
  return [
    prompt.type === "text" &&
      !prompt.text.includes("find_order") &&
      "The template does not show tools: describe them in the guidelines, or use the strategy act or react.",
    spelled.length > 0 && `Not single tokens: ${spelled.join(", ")}. Text that spells them is read as the marker.`,
    unwritable.length > 0 &&
      renderer.toolCallParser.name !== null &&
      `Tools with names like ${unwritable.join(", ")} cannot be called: parser "${renderer.toolCallParser.name}" does not read such a name back.`,
    values !== null &&
      values.lost.length > 0 &&
      `Of ${values.written} kinds of arguments, parser "${renderer.toolCallParser.name}" does not read back as they were: ${values.lost.join(", ")}.`,
    values !== null &&
      values.refused.length > 0 &&
      `The template raises where a tool declares: ${values.refused.join(", ")}.`,
    !answers.writesCalls &&
      renderer.toolCallParser.name !== null &&
      "The template does not write a call after its own prompt, so calls are tested as the parser reads them.",
    (audited.parserBasis === "family" || audited.parserBasis === "written") &&
      answers.otherCall !== null &&
      `${unreadCall(audited.parsers.toolCallParser.name, answers.otherCall)} Models of this family write it differently.`,
    answers.closesThinking && "The prompt closes the thinking, so thoughts are not tested; see --thinking on.",
    history.some(({ kind, template }) => kind === systemInTheMiddle && template === "refuses") &&
      "It refuses a system message in the middle. The loop adds none.",
    history.some(takesToolsAlong) &&
      "The first system message takes the tools along, even in the middle. The loop adds none there.",
    answers.generationPrompt === "" &&
      "There is no generation prompt of its own: what opens an answer is written with the question.",
  ].filter((note) => note !== false);
}
