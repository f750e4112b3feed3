import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";

/** A tool that an environment offers. */
export type Tool = {
  readonly name: string;
  /** The whole OpenAI entry (`{"type": "function", "function": {...}}`), lossless: prompts render it byte for byte. */
  readonly definition: JsonObject;
};

/** Reads a tool out of an OpenAI entry. Throws a plain error when it has no name. */
export function toolFromDefinition(definition: JsonObject): Tool {
  const body = definition.get("function");
  const name = body instanceof Map ? body.get("name") : undefined;
  if (typeof name !== "string") {
    throw new Error(
      'Cannot read a tool definition: "function.name" is missing; give the OpenAI form {"type": "function", "function": {"name": ...}}.',
    );
  }
  return { name, definition };
}

/** The JSON Schema of the tool's arguments; `null` when the definition has none. */
export function toolParameters(tool: Tool): JsonValue {
  const body = tool.definition.get("function");
  return body instanceof Map ? (body.get("parameters") ?? null) : null;
}
