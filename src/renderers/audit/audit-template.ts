// Audits a chat template with its tokenizer: which renderer the loop would use and why, what happens to history when
// messages are added, whether answers survive being read and rendered again, and what must be corrected before training. A pure
// function; the command `doctor template` reads the folder and prints what it returns.

import { ConfigurationError } from "../../core/index.ts";
import { AuditedTemplate, type AuditTemplateOptions } from "./audited-template.ts";
import { probeHistory, scenariosOf, systemInTheMiddle, probeRoundTrip, roundTripsOf } from "./probe-history.ts";
import { type SampledAnswers, sampledAnswers } from "./sampled-answers.ts";
import type { AuditedRenderer, HistoryFinding, RoundTripFinding, TemplateAudit } from "./template-audit.ts";

/** Examines a chat template. Never throws on one: a template that no renderer can be made of is an audit with a problem. */
export function auditTemplate(options: AuditTemplateOptions): TemplateAudit {
  let audited: AuditedTemplate;
  try {
    audited = new AuditedTemplate(options);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return { renderer: null, isAppendOnly: false, history: [], roundTrips: [], notes: [], problems: [error.message] };
  }
  const texts = sampledAnswers(audited);
  const probes = scenariosOf(texts).map((scenario) => probeHistory(audited, scenario));
  const history = probes.map(({ finding }) => finding);
  const roundTrips = roundTripsOf(texts).map(([kind, text]) => probeRoundTrip(audited, kind, text));
  const renderer = describeRenderer(audited, { options, texts });
  const isAppendOnly = history.every(({ template, kind }) => template === "keeps" || kind === systemInTheMiddle);
  const stray = probes.find((probe) => probe.stray !== null);
  const problems = [
    ...tokenProblems(renderer),
    ...readingProblems(renderer, { texts, roundTrips }),
    ...refusalProblems(history),
    ...(audited.mismatch === null
      ? []
      : [`The family "${renderer.family}" does not describe this template: ${audited.mismatch}.`]),
    ...(stray === undefined
      ? []
      : [
          `At "${stray.finding.kind}" the renderer appends ${JSON.stringify(stray.stray)}, which the template does not write.`,
        ]),
    ...(renderer.historyPolicy === "append-only" && !isAppendOnly
      ? [`The renderer "${renderer.family}" takes the template for append-only, which it is not.`]
      : []),
  ];
  return {
    renderer,
    isAppendOnly,
    history,
    roundTrips,
    notes: notesOf(audited, { renderer, texts, history }),
    problems,
  };
}

type Found = { readonly options: AuditTemplateOptions; readonly texts: SampledAnswers };

function describeRenderer(audited: AuditedTemplate, { options, texts }: Found): AuditedRenderer {
  const { family, renderer, tokenizer } = audited;
  const { toolCallParser, reasoningParser } = family;
  const markers = [...new Set([...(reasoningParser?.markers ?? []), ...toolCallParser.markers])];
  return {
    family: renderer.family,
    kind: audited.kind,
    because: becauseOf(audited, options),
    historyPolicy: renderer.historyPolicy,
    stopTokens: renderer.stopTokenIds.map((id) => ({ id, text: tokenizer.decode([id]) })),
    generationPrompt: texts.generationPrompt,
    thinkingVariable: family.thinkingVariable,
    toolCallParser: {
      name: toolCallParser.name,
      because: audited.kind === "family" ? "the family's" : parserReason(audited, { options, texts }),
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

function parserReason({ family }: AuditedTemplate, { options, texts }: Found): string {
  if (texts.writesCalls && texts.otherCall === null) return "it reads the call that the template writes";
  const { markers } = family.toolCallParser;
  return markers.length > 0 && markers.every((marker) => options.chatTemplate.includes(marker))
    ? "its markers stand in the template"
    : "the usual one: no parser reads a call that the template writes";
}

function tokenProblems({ stopTokens, family }: AuditedRenderer): string[] {
  if (stopTokens.length > 0) return [];
  return [
    `Nothing stops sampling with "${family}": the tokenizer has none of its stop tokens; give the tokenizer of the model, or ` +
      "name its eos_token in tokenizer_config.json.",
  ];
}

/** What the template writes must be read back. A row of the table says how its models write, whatever their template does. */
function readingProblems(
  { kind, toolCallParser }: AuditedRenderer,
  { texts, roundTrips }: { readonly texts: SampledAnswers; readonly roundTrips: readonly RoundTripFinding[] },
): string[] {
  const isUnread = (answer: string): boolean =>
    roundTrips.some((trip) => trip.kind === answer && trip.outcome === "unread");
  const problems: string[] = [];
  if (kind === "template" && texts.otherCall !== null) problems.push(unreadCall(toolCallParser.name, texts.otherCall));
  if (isUnread("call")) {
    problems.push(`Parser "${toolCallParser.name}" does not read its own call: ${JSON.stringify(texts.call.body)}.`);
  }
  if (texts.thought !== null && isUnread("thinking and answer")) {
    problems.push(`Thinking is not separated from content: ${JSON.stringify(texts.thought.body)}.`);
  }
  return problems;
}

function unreadCall(parser: string, call: string): string {
  return `Parser "${parser}" does not read a call as the template writes it: ${JSON.stringify(call)}.`;
}

/** One problem for each reason. A system message in the middle may be refused: loops add none. */
function refusalProblems(history: readonly HistoryFinding[]): string[] {
  const kinds = new Map<string, string[]>();
  for (const { kind, loop, error } of history) {
    if (loop !== "fails" || kind === systemInTheMiddle) continue;
    kinds.set(error ?? "", [...(kinds.get(error ?? "") ?? []), `"${kind}"`]);
  }
  return [...kinds].map(([error, names]) => `Episodes would fail at ${names.join(", ")}: ${error}`);
}

function notesOf(
  audited: AuditedTemplate,
  { renderer, texts, history }: { readonly renderer: AuditedRenderer; readonly texts: SampledAnswers; readonly history: readonly HistoryFinding[] }, // prettier-ignore
): string[] {
  const notes: string[] = [];
  const prompt = audited.render([{ role: "user", content: "?" }], { addGenerationPrompt: true });
  if (prompt.type === "text" && !prompt.text.includes("find_order")) {
    notes.push("The template does not show tools: describe them in the guidelines, or use the strategy act or react.");
  }
  const spelled = renderer.markers.filter(({ isToken }) => !isToken).map(({ text }) => JSON.stringify(text));
  if (spelled.length > 0) {
    notes.push(`Not single tokens: ${spelled.join(", ")}. Text that spells them is read as the marker.`);
  }
  if (!texts.writesCalls) {
    notes.push(
      "The template does not write a call behind its own prompt, so calls are tried as the parser reads them.",
    );
  }
  if (renderer.kind === "family" && texts.otherCall !== null) {
    notes.push(
      `${unreadCall(renderer.toolCallParser.name, texts.otherCall)} Models of this family write it otherwise.`,
    );
  }
  if (texts.closesThinking) notes.push("The prompt closes the thinking, so no thoughts are tried; see --thinking on.");
  const refused = history.find(({ kind, template }) => kind === systemInTheMiddle && template === "refuses");
  if (refused !== undefined) notes.push("It refuses a system message in the middle. The loop adds none.");
  if (texts.generationPrompt === "") {
    notes.push("There is no generation prompt of its own: what opens an answer is written with the question.");
  }
  return notes;
}
