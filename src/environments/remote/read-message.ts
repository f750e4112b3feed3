// Reads messages of a server: JSON without loss, each field of the type that its protocol defines,
// or the fault "remote-invalid" that names the field. The text of a message is never shown, because
// it may contain a task's secrets.

import { messageOf } from "../../core/failure.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { dumpJson } from "../../python-semantics/json/dump-json.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/value.ts";
import { remoteFault } from "./remote-service.ts";

/** `what`: the message's description, such as `an answer of OpenEnv`. */
export function parseMessage(text: string, what: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    throw remoteFault("remote-invalid", `Cannot read ${what}: it is not JSON (${messageOf(error)}).`, { cause: error });
  }
}

/** The field of an object, in the type that `as` reads. */
export function fieldOf<T>(record: JsonObject, key: string, as: FieldType<T>, what: string): T {
  const value = record.get(key) ?? null;
  const read = as.read(value);
  if (read !== undefined) return read;
  throw remoteFault("remote-invalid", `Cannot read ${what}: "${key}" is no ${as.name}.`);
}

/** `read` returns `undefined` for a value of another type; an absent field is `null`. */
export type FieldType<T> = { readonly name: string; read(this: void, value: JsonValue): T | undefined };

export const asText: FieldType<string> = {
  name: "text",
  read: (value) => (typeof value === "string" ? value : undefined),
};
export const asObject: FieldType<JsonObject> = {
  name: "object",
  read: (value) => (value instanceof Map ? value : undefined),
};
export const asList: FieldType<readonly JsonValue[]> = {
  name: "list",
  read: (value) => (Array.isArray(value) ? value : undefined),
};
export const asBoolean: FieldType<boolean> = {
  name: "boolean",
  read: (value) => (typeof value === "boolean" ? value : undefined),
};
export const asCount: FieldType<number> = {
  name: "whole number",
  read: (value) => (typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined),
};
/** A reward may also be `True`, which some Python servers send. */
export const asReward: FieldType<number | null> = {
  name: "finite reward",
  read: (value) => {
    if (value === null) return null;
    if (typeof value === "boolean") return value ? 1 : 0;
    const number = value instanceof JsonFloat ? value.value : typeof value === "bigint" ? Number(value) : value;
    return typeof number === "number" && Number.isFinite(number) ? number : undefined;
  },
};

export function orNull<T>(type: FieldType<T>): FieldType<T | null> {
  return { name: type.name, read: (value) => (value === null ? null : type.read(value)) };
}

/**
 * A tool as listed by OpenEnv, ORS and MCP: `name`, `description`, `input_schema`. Without a
 * schema, the tool takes no arguments.
 */
export function readListedTool(value: JsonValue, what: string): Tool {
  if (!(value instanceof Map)) throw remoteFault("remote-invalid", `Cannot read ${what}: a tool is not an object.`);
  const schema = value.get("input_schema") ?? value.get("inputSchema") ?? null;
  return toolOf({
    name: fieldOf(value, "name", asText, what),
    description: fieldOf(value, "description", orNull(asText), what) ?? "",
    parameters: schema instanceof Map ? schema : null,
  });
}

/** `parameters`: a JSON Schema; `null` for a tool without parameters. */
export function toolOf(parts: {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject | null;
}): Tool {
  const { name, description, parameters } = parts;
  const none: JsonObject = new Map<string, JsonValue>([
    ["type", "object"],
    ["properties", new Map()],
  ]);
  const body = new Map<string, JsonValue>([
    ["name", name],
    ["description", description],
    ["parameters", parameters ?? none],
  ]);
  return toolFromDefinition(
    new Map<string, JsonValue>([
      ["type", "function"],
      ["function", body],
    ]),
  );
}

// The text that a policy reads for a result in blocks: text unchanged, and a note for each block
// that is not text, so that the policy knows of its existence. Blocks of ORS and MCP have the same
// fields.

/** Each block begins on a new line. */
export function blockText(blocks: readonly JsonValue[]): string {
  return blocks.map(textOfBlock).join("\n");
}

function textOfBlock(block: JsonValue): string {
  if (!(block instanceof Map)) return typeof block === "string" ? block : dumpJson(block);
  const text = (key: string): string | null => {
    const value = block.get(key);
    return typeof value === "string" ? value : null;
  };
  const type = text("type");
  if (type === "text") return text("text") ?? "";
  if (type === "image" || type === "audio") {
    return `[${type}${text("mimeType") === null ? "" : ` (${text("mimeType")})`}: not shown]`;
  }
  if (type === "resource_link") return `[resource ${text("uri") ?? "without address"}: not shown]`;
  if (type === "resource") {
    const resource = block.get("resource");
    const content = resource instanceof Map ? resource.get("text") : null;
    return typeof content === "string" ? content : "[resource: not shown]";
  }
  return dumpJson(block);
}
