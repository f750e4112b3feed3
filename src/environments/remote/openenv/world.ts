// The two flavours of OpenEnv's environments, as tools of a policy: one action whose fields are the
// arguments of one tool, or MCP tools that are listed and called. This file also decides how an
// observation reads, and knows nothing about the connection.

import type { EnvironmentCall, ToolResult } from "../../../core/environment.ts";
import type { Tool } from "../../../core/message.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import { asList, asObject, asText, blockText, fieldOf, orNull, readListedTool, remoteFault, toolOf } from "../index.ts";
import type { StepAnswer } from "./frames.ts";

/** A flavour. `listTools`: the action that lists the tools; `null` if `tools` is the complete list. */
export type WorldFlavour = {
  readonly type: "typed" | "mcp";
  readonly listTools: JsonObject | null;
  readonly tools: readonly Tool[];
  /** The fields of a step. */
  action(this: void, call: EnvironmentCall): JsonObject;
  /** The text that the policy reads. */
  read(this: void, answer: StepAnswer): Pick<ToolResult, "text" | "isError">;
};

const where = "the schema of an OpenEnv server";

/** The flavour of a world, detected from the JSON Schema of its action, as given by GET /schema. */
export function flavourOf(schema: JsonValue, observationField: string | null): WorldFlavour {
  const action = asObject.read(schema);
  if (action === undefined) throw remoteFault("remote-invalid", `Cannot read ${where}: "action" is not an object.`);
  const properties = fieldOf(action, "properties", orNull(asObject), where) ?? new Map<string, JsonValue>();
  if (properties.has("tool_name") && properties.has("arguments")) return mcpFlavour(observationField);
  const name = toolNameOf(fieldOf(action, "title", orNull(asText), where) ?? "");
  const parameters = new Map<string, JsonValue>(
    [...action].filter(([key]) => key !== "title" && key !== "description"),
  );
  // Metadata are a client's notes to itself, which every action has.
  parameters.set("properties", new Map([...properties].filter(([key]) => key !== "metadata")));
  if (!parameters.has("type")) parameters.set("type", "object");
  return {
    type: "typed",
    listTools: null,
    tools: [toolOf({ name, description: fieldOf(action, "description", orNull(asText), where) ?? "", parameters })],
    action: (call) => call.arguments,
    read: ({ observation }) => ({ text: observationText(observation, observationField), isError: false }),
  };
}

/**
 * Tool name of an action class, "guess" for "GuessAction": a policy should not learn to write class
 * names.
 */
function toolNameOf(title: string): string {
  const words = title
    .replace(/Action$/, "")
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replaceAll(/[^A-Za-z0-9_-]+/g, "_")
    .toLowerCase();
  return words.slice(0, 64) || "act";
}

function mcpFlavour(observationField: string | null): WorldFlavour {
  return {
    type: "mcp",
    listTools: fromPlain({ type: "list_tools" }) as JsonObject,
    tools: [],
    action: (call) =>
      new Map<string, JsonValue>([
        ["type", "call_tool"],
        ["tool_name", call.name],
        ["arguments", call.arguments],
      ]),
    read: ({ observation }) => {
      const error = observation.get("error");
      if (error instanceof Map) return readToolError(error);
      return observation.has("result")
        ? readToolResult(observation.get("result") ?? null)
        : { text: observationText(observation, observationField), isError: false };
    },
  };
}

/**
 * A transport error leaves the effect of the call unknown, so it is a fault; the policy may have
 * caused any other error itself.
 */
function readToolError(error: JsonObject): Pick<ToolResult, "text" | "isError"> {
  const what = "an error of a tool of the OpenEnv server";
  const type = fieldOf(error, "error_type", orNull(asText), what) ?? "execution_error";
  const message = fieldOf(error, "message", orNull(asText), what) ?? type;
  if (type === "transport_error")
    throw remoteFault("remote-error", `Cannot carry out a call of an MCP tool: ${message}`);
  return { text: `Error: ${message}`, isError: true };
}

function readToolResult(result: JsonValue): Pick<ToolResult, "text" | "isError"> {
  if (result instanceof Map && Array.isArray(result.get("content"))) {
    const blocks = fieldOf(result, "content", asList, "a result of a tool");
    return { text: blockText(blocks), isError: result.get("is_error") === true };
  }
  return { text: typeof result === "string" ? result : dumpJson(result), isError: false };
}

/**
 * The named field; without a name the only field if it is text, otherwise all fields as JSON, and
 * "" if there are none. Metadata are a world's notes about itself, and may contain what the policy
 * is to find out: they are read only if `field` names them.
 */
export function observationText(observation: JsonObject, field: string | null): string {
  const shown = new Map([...observation].filter(([key]) => key !== "metadata"));
  const [only] = shown.values();
  const value =
    field === null ? (shown.size === 1 && typeof only === "string" ? only : shown) : fieldAt(observation, field);
  if (value instanceof Map && value.size === 0) return "";
  return typeof value === "string" ? value : dumpJson(value);
}

/** The value at a field, or at a path of fields separated by dots; `null` if there is none. */
function fieldAt(observation: JsonObject, path: string): JsonValue {
  if (observation.has(path)) return observation.get(path) ?? null;
  let value: JsonValue = observation;
  for (const key of path.split(".")) value = value instanceof Map ? (value.get(key) ?? null) : null;
  return value;
}

/** The tools in the answer to `listTools`. */
export function readTools({ observation }: StepAnswer): readonly Tool[] {
  const what = "the tools of an OpenEnv server";
  const tools = fieldOf(observation, "tools", asList, what).map((tool) => readListedTool(tool, what));
  if (tools.length > 0) return tools;
  // The cause is in the metadata, which older servers do not send.
  const cause = fieldAt(observation, "metadata.error");
  throw remoteFault(
    "remote-error",
    `Cannot use ${what}: it lists none${typeof cause === "string" ? ` (${cause})` : ""}.`,
  );
}
