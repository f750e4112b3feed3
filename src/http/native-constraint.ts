// Constraints in the forms that servers with a grammar engine take: a JSON schema, a regular
// expression or a grammar as it is, and everything else as one structural tag (the `format` of
// xgrammar's structural tags, as both SGLang 0.5.23 and vLLM 0.32 compile it). The names of the
// parameters belong to the engines.

import type { Constraint, ConstraintKind, SampleRequest, TextForm } from "../core/index.ts";

/** Kinds of constraints that these servers sample under: all of them. */
export const grammarConstraints: readonly ConstraintKind[] = [
  "json-schema",
  "regex",
  "ebnf",
  "tool-call",
  "tool-call-or-answer",
];

/** One grammar: a schema and a structural tag are JSON text. */
export type NativeConstraint = {
  readonly type: "json" | "regex" | "ebnf" | "structural-tag";
  readonly text: string;
};

/** The request with its constraint as sampling parameters of the server, which `write` names. */
export function withNativeConstraint(
  request: SampleRequest,
  write: (native: NativeConstraint) => Readonly<Record<string, unknown>>,
): SampleRequest {
  const { constraint = null, sampling } = request;
  if (constraint === null) return request;
  const extra = { ...sampling.extra, ...write(nativeConstraint(constraint)) };
  return { ...request, sampling: { ...sampling, extra }, constraint: null };
}

export function nativeConstraint({ text, reasoning }: Constraint): NativeConstraint {
  if (reasoning === null) {
    switch (text.type) {
      case "json-schema":
        return { type: "json", text: text.schema };
      case "regex":
        return { type: "regex", text: text.pattern };
      case "ebnf":
        return { type: "ebnf", text: text.grammar };
      case "tool-call":
      case "tool-call-or-answer":
        break;
      default:
        return text satisfies never;
    }
  }
  return { type: "structural-tag", text: `{"type":"structural_tag","format":${formatOf(wholeForm(text, reasoning))}}` };
}

/** The whole text of a turn. Reasoning comes first; where the prompt has not opened it, it may be left out. */
function wholeForm(text: Constraint["text"], reasoning: Constraint["reasoning"]): TextForm {
  const form = constrainedForm(text);
  if (reasoning === null) return form;
  const { start, end } = reasoning;
  const rest: readonly TextForm[] = [{ type: "text", end }, { type: "regex", pattern: "\\n{0,4}" }, form];
  if (start === null) return { type: "sequence", parts: rest };
  return { type: "choice", options: [{ type: "sequence", parts: [{ type: "literal", text: start }, ...rest] }, form] };
}

function constrainedForm(text: Constraint["text"]): TextForm {
  switch (text.type) {
    case "json-schema":
      return { type: "json", schema: text.schema };
    case "regex":
    case "ebnf":
      return text;
    case "tool-call":
      return oneOf(text.calls);
    case "tool-call-or-answer":
      return oneOf([...text.calls, text.answer]);
    default:
      return text satisfies never;
  }
}

function oneOf(options: readonly TextForm[]): TextForm {
  return options.length === 1 ? options[0]! : { type: "choice", options };
}

/** The only form of an empty text that all versions of xgrammar accept. */
const empty = JSON.stringify({ type: "grammar", grammar: 'root ::= ""' });

/** A form as the format of a structural tag. Schemas are inserted as they are, so that their keys keep their order. */
function formatOf(form: TextForm): string {
  switch (form.type) {
    case "literal":
      return JSON.stringify({ type: "const_string", value: form.text });
    case "json":
      return `{"type":"json_schema","json_schema":${form.schema}}`;
    case "text":
      return JSON.stringify({ type: "tag", begin: "", content: { type: "any_text" }, end: form.end });
    case "regex":
      return JSON.stringify({ type: "regex", pattern: form.pattern });
    case "ebnf":
      return JSON.stringify({ type: "grammar", grammar: form.grammar });
    case "sequence":
      return `{"type":"sequence","elements":[${form.parts.map(formatOf).join(",")}]}`;
    case "choice":
      return `{"type":"or","elements":[${form.options.map(formatOf).join(",")}]}`;
    case "optional":
      return `{"type":"or","elements":[${formatOf(form.form)},${empty}]}`;
    default:
      return form satisfies never;
  }
}
