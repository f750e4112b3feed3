// The constraint of a call: the client's, in the format of the model's family, for an engine that
// has grammars. Reasoning before the constrained text stays free. Afterwards, the sampled tokens
// that it restricted.

import {
  type ConstrainedLoss,
  type ConstrainedText,
  type ConstrainedTokens,
  type Constraint,
  type Engine,
  firstStop,
  type Renderer,
  type SampleResult,
  type TextForm,
} from "../core/index.ts";
import { dumpJson, type JsonObject } from "../python-semantics/json/index.ts";
import { defaultConstrainedLoss } from "../trajectories/index.ts";
import { type AnswerForm, GatewayError, type GatewayRequest } from "./request.ts";
import { stopStringsOf } from "./stop-strings.ts";

/** Handling of constraints that clients request; see `GatewayOptions`. */
export type ClientConstraints = "obey" | "ignore";

export type ConstraintSettings = {
  readonly clients: ClientConstraints;
  /** Tokens of constrained turns that enter the loss. */
  readonly loss: ConstrainedLoss;
};

export const defaultConstraints: ConstraintSettings = { clients: "obey", loss: defaultConstrainedLoss };

export type CallConstraint = {
  /** `null`: the text is free. */
  readonly constraint: Constraint | null;
  /** Names of fields that have no effect. */
  readonly unused: readonly string[];
};

const noConstraint: CallConstraint = { constraint: null, unused: [] };

/** False if the whole text is an answer, so that no call is read from it. */
export function allowsCalls(constraint: Constraint | null): boolean {
  return constraint === null || constraint.text.type === "tool-call" || constraint.text.type === "tool-call-or-answer";
}

/** Throws a `GatewayError` if the engine or the model's format cannot keep the constraint. */
export async function constraintOfCall(
  { constraint: wished, tools, mayCall }: Pick<GatewayRequest, "constraint" | "tools" | "mayCall">,
  { engine, renderer }: { readonly engine: Engine; readonly renderer: Renderer },
  { clients }: Pick<ConstraintSettings, "clients">,
): Promise<CallConstraint> {
  if (wished === null) return noConstraint;
  const { fields, mustCall, answer } = wished;
  if (clients === "ignore") return { constraint: null, unused: fields };
  const [field = ""] = fields;
  const refuse = (why: string): never => {
    const message = `Cannot serve the request: ${fields.join(" and ")} ${fields.length === 1 ? "constrains" : "constrain"} the answer, and ${why}.`;
    throw new GatewayError("unsupported", message, { param: field });
  };
  const kinds = engine.constraints ?? [];
  const remedy = "sample from SGLang or vLLM, or have such fields ignored (--client-constraints ignore)";
  if (kinds.length === 0) refuse(`the engine "${engine.name}" has no grammars; ${remedy}`);
  const forms = await renderer.actionForms?.(tools);
  if (forms === undefined)
    return refuse(`the renderer "${renderer.family}" does not state the forms of its actions; ${remedy}`);
  const callable = tools.flatMap(({ name, definition }, at) =>
    mustCall === null || mustCall === "any" || mustCall.includes(name)
      ? [{ name, definition, form: forms.calls[at] ?? null }]
      : [],
  );
  const calls = (): readonly TextForm[] =>
    callable.map(({ name, definition, form }) => {
      if (!hasJsonText(definition))
        return refuse(`the schema of the tool "${name}" has a number beyond the largest float; correct it`);
      return form === null
        ? refuse(`the call format "${renderer.parsers.toolCalls}" has no known form for the tool "${name}"; ${remedy}`)
        : form;
    });
  const text: ConstrainedText =
    mustCall !== null || answer === null
      ? { type: "tool-call", calls: calls() }
      : answerText(answer, { start: forms.answerStart, calls: mayCall && answer.mayCallInstead ? calls() : [] });
  if (!kinds.includes(text.type))
    refuse(`the engine "${engine.name}" takes no constraint of kind "${text.type}"; ${remedy}`);
  return { constraint: { text, reasoning: forms.reasoning }, unused: [] };
}

/** False if a number has no JSON text, which the server would need. */
function hasJsonText(definition: JsonObject): boolean {
  try {
    JSON.parse(dumpJson(definition));
    return true;
  } catch {
    return false;
  }
}

function answerText(
  answer: AnswerForm,
  { start, calls }: { readonly start: string; readonly calls: readonly TextForm[] },
): ConstrainedText {
  const { mayCallInstead: _, ...text } = answer;
  if (start === "" && calls.length === 0) return text;
  const form: TextForm = text.type === "json-schema" ? { type: "json", schema: text.schema } : text;
  if (start === "") return { type: "tool-call-or-answer", calls, answer: form };
  return {
    type: "tool-call-or-answer",
    calls,
    answer: { type: "sequence", parts: [{ type: "literal", text: start }, form] },
  };
}

/** The sampled tokens that the constraint restricted; `null` without a constraint. */
export function constrainedTokens(
  { sampledTokens, allowedMass = null }: Pick<SampleResult, "sampledTokens" | "allowedMass">,
  constraint: Constraint | null,
  renderer: Renderer,
  loss: ConstrainedLoss,
): ConstrainedTokens | null {
  if (constraint === null) return null;
  const { length } = sampledTokens;
  const [from, to] = freeRange(sampledTokens, constraint.reasoning, renderer);
  const ranges = [
    { start: 0, end: from },
    { start: to, end: length },
  ].filter(({ start, end }) => end > start);
  return { ranges, allowedMass, loss };
}

/** `[start, end)` of the tokens of the reasoning; empty without one. Its opening tag is constrained. */
function freeRange(
  tokens: Uint32Array,
  reasoning: Constraint["reasoning"],
  renderer: Renderer,
): readonly [start: number, end: number] {
  if (reasoning === null) return [0, 0];
  const after = (ids: Uint32Array, text: string): number | null =>
    firstStop(ids, stopStringsOf([text], renderer)!)?.count ?? null;
  const { start, end } = reasoning;
  const opened = start === null ? 0 : after(tokens, start);
  const isFirst = opened !== null && (start === null || renderer.decode(tokens.subarray(0, opened)).startsWith(start));
  if (!isFirst) return [0, 0];
  const length = after(tokens.subarray(opened), end);
  return [opened, length === null ? tokens.length : opened + length];
}
