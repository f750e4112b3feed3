// Renders an answer from its parts, as a trainer does that keeps messages only. Templates disagree about the shape of a call,
// so each shape that is in use is tried until one is accepted and shows what it should.

import type { AssistantMessage, Message } from "../../core/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { wireMessages } from "../renderer-family.ts";
import type { Rendering } from "../detection/template-prober.ts";
import type { AuditedTemplate } from "./audited-template.ts";

/** The first rendering that holds `mustHold`, else the first that is not refused, else the first refusal. */
export function renderParts(
  audited: AuditedTemplate,
  { history, message, mustHold }: { readonly history: readonly Message[]; readonly message: AssistantMessage; readonly mustHold: string }, // prettier-ignore
): Rendering {
  const wires = wireMessages(audited.family, [...history, message]);
  const renderings = shapesOf(wires.at(-1)!).map((shape) =>
    audited.renderWire([...wires.slice(0, -1), shape], { addGenerationPrompt: false }),
  );
  const texts = renderings.filter((rendering) => rendering.type === "text");
  return texts.find(({ text }) => text.includes(mustHold)) ?? texts[0] ?? renderings[0]!;
}

/** Arguments as an object or as JSON text, and no words as an empty text or as none. */
function shapesOf(wire: JsonObject): readonly JsonObject[] {
  const calls = wire.get("tool_calls");
  if (!Array.isArray(calls) || calls.length === 0) return [wire];
  const asText = new Map([...wire, ["tool_calls", calls.map(withArgumentsText)]]);
  const shapes = [wire, asText];
  if (wire.get("content") !== "") return shapes;
  return [...shapes, ...shapes.map((shape) => new Map([...shape, ["content", null]]))];
}

function withArgumentsText(call: JsonValue): JsonValue {
  const body = call instanceof Map ? call.get("function") : null;
  if (!(call instanceof Map) || !(body instanceof Map)) return call;
  const text = dumpJson(body.get("arguments") ?? null, { ensureAscii: false });
  return new Map([...call, ["function", new Map([...body, ["arguments", text]])]]);
}
