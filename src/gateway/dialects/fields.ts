// Code shared by the dialects: bodies are checked by schemas, contents are text, tools are
// functions. Content that a text model cannot read (images, sound, files) is refused by name.

import { z } from "zod";
import { type AssistantMessage, type Tool, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { mapInSteps, type Steps } from "../../lib/steps.ts";
import { type ClientConstraint, type Dialect, GatewayError, type GatewayRequest } from "../request.ts";
import { type CheckedFields, readBody, unsupported } from "./request-fields.ts";

/**
 * A list whose items {@link readLists} parses before the body is parsed, because it may be very
 * long.
 */
export function longList<T extends z.ZodType>(_item: T): z.ZodArray<z.ZodType<z.output<T>>> {
  return z.array(z.custom<z.output<T>>());
}

export function isTokenId(id: unknown): boolean {
  return Number.isInteger(id) && Number(id) >= 0 && Number(id) <= 0xffff_ffff;
}

/** The body with the items of its long lists parsed. Throws like {@link readBody}. */
export function* readLists(body: unknown, lists: Dialect["lists"]): Steps<unknown> {
  if (typeof body !== "object" || body === null) return body;
  const read: Record<string, unknown> = { ...body };
  for (const [name, item] of Object.entries(lists)) {
    const list = read[name];
    if (!Array.isArray(list)) continue;
    read[name] = yield* mapInSteps(list, (one, place) => readBody(item, one, [name, String(place)]));
  }
  return read;
}

const textTypes = new Set(["text", "input_text", "output_text", "refusal", "summary_text"]);

export const partSchema = z.object({
  type: z.string(),
  text: z.string().nullish(),
  refusal: z.string().nullish(),
});
export const contentSchema = z.union([z.string(), z.array(partSchema)]);
export type Content = z.infer<typeof contentSchema>;

/**
 * Text of a message's content. Parts of a list are joined by line breaks, as servers do for
 * templates that take text.
 */
export function readText(content: Content | null | undefined, param: string): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  return content
    .map((part) => {
      if (textTypes.has(part.type)) return part.text ?? part.refusal ?? "";
      throw unsupported(`content of type "${part.type}" cannot be shown to a model of text`, param);
    })
    .join("\n");
}

/**
 * Builds a tool in the form that templates receive, which is the same for every dialect: switches
 * of an API are not meant for the model.
 */
export function makeTool(fields: {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly parameters?: unknown;
}): Tool {
  const body: Record<string, unknown> = { name: fields.name };
  if (typeof fields.description === "string") body["description"] = fields.description;
  if (fields.parameters !== undefined && fields.parameters !== null) body["parameters"] = fields.parameters;
  return toolFromDefinition(fromPlain({ type: "function", function: body }) as JsonObject);
}

/** A field that may be absent or null, which mean the same. */
export function optional<T extends z.ZodType>(schema: T): z.ZodType<z.output<T> | undefined> {
  return schema.nullish().transform((value) => value ?? undefined);
}

/** Fields of every body. */
export const commonShape = { model: optional(z.string()), stream: optional(z.boolean()) };

/** Builds a request from a body: fields that its dialect does not have count as not set. */
export function requestOf(
  body: { readonly model?: string | undefined; readonly stream?: boolean | undefined },
  parts: Partial<GatewayRequest> & Pick<GatewayRequest, "messages" | "maxTokens"> & CheckedFields,
): GatewayRequest {
  return {
    promptTokens: null,
    promptField: "prompt",
    tools: [],
    mayCall: false,
    stop: [],
    stopTokenIds: [],
    isStreamed: body.stream ?? false,
    model: body.model ?? "",
    maxCalls: null,
    constraint: null,
    ignoredTools: 0,
    namespaces: new Map(),
    includesUsage: true,
    includesThoughts: false,
    requestId: null,
    response: null,
    previousResponseId: null,
    ...parts,
  };
}

export const stopSchema = z
  .union([z.string(), z.array(z.string()).max(16)])
  .nullish()
  .transform((stop) => (stop === null || stop === undefined ? [] : typeof stop === "string" ? [stop] : stop))
  .transform((stop) => stop.filter((one) => one !== ""));

export const limitSchema = optional(z.int().min(1));

/** Builds an assistant message from parts that are separate in a wire format. */
export class AssistantBuilder {
  #texts: string[] = [];
  #reasoning: string[] = [];
  #calls: AssistantMessage["toolCalls"][number][] = [];
  #isOpen = false;
  readonly #separator: string;

  /** `separator`: text between neighbouring parts of one kind. */
  constructor(separator = "\n") {
    this.#separator = separator;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  text(text: string): void {
    this.#isOpen = true;
    if (text !== "") this.#texts.push(text);
  }

  reasoning(text: string): void {
    this.#isOpen = true;
    if (text !== "") this.#reasoning.push(text);
  }

  call(call: AssistantMessage["toolCalls"][number]): void {
    this.#isOpen = true;
    this.#calls.push(call);
  }

  /** Returns the message so far and starts a new one; `null` if it is empty. */
  take(): AssistantMessage | null {
    if (!this.#isOpen) return null;
    const message: AssistantMessage = {
      role: "assistant",
      content: this.#texts.join(this.#separator),
      reasoning: this.#reasoning.length === 0 ? null : this.#reasoning.join(this.#separator),
      toolCalls: this.#calls,
    };
    [this.#texts, this.#reasoning, this.#calls, this.#isOpen] = [[], [], [], false];
    return message;
  }
}

/** Tool name of a result whose client does not name the tool; the conversation determines it. */
export const unknownTool = "unknown";

/** The model's choice of tools. */
export type ToolChoice = {
  readonly mayCall: boolean;
  /** Names of the tools that the model sees; `null` for all. */
  readonly allowed: ReadonlySet<string> | null;
  /** Same as in `ClientConstraint`. The model sees the other tools too. */
  readonly mustCall: ClientConstraint["mustCall"];
  /** Name of the field that states the choice. */
  readonly field: string;
};

/**
 * Reads a tool choice in the format of OpenAI's dialects or of Anthropic's. Throws a `GatewayError`
 * for a choice of a tool that is not a function.
 */
export function readToolChoice(choice: unknown): ToolChoice {
  const fields = typeof choice === "object" && choice !== null ? (choice as Readonly<Record<string, unknown>>) : null;
  const type = fields?.["type"] ?? choice;
  const free: ToolChoice = { mayCall: true, allowed: null, mustCall: null, field: "tool_choice" };
  if (type === undefined || type === null || type === "auto") return free;
  if (type === "none") return { ...free, mayCall: false };
  if (type === "required" || type === "any") return { ...free, mustCall: "any" };
  if (type === "function" || type === "tool") {
    // Chat nests the name one level deeper than the others.
    const { name, function: inner } = readBody(namedSchema, fields, ["tool_choice"]);
    const named = inner?.name ?? name;
    if (named !== undefined) return { ...free, mustCall: [named] };
  }
  // Chat nests the list one level deeper than Responses.
  const list = type === "allowed_tools" ? readBody(allowedSchema, fields?.["allowed_tools"] ?? fields) : null;
  if (list !== null) {
    const names = list.tools.flatMap((tool) => tool.function?.name ?? tool.name ?? []);
    return { ...free, allowed: new Set(names), mustCall: list.mode === "required" ? "any" : null };
  }
  const message = "tool_choice is neither a mode nor a function; send auto, none, required or the name of a function";
  throw unsupported(message, "tool_choice");
}

const namedSchema = z.object({
  name: optional(z.string()),
  function: optional(z.object({ name: optional(z.string()) })),
});
const allowedSchema = z.object({
  mode: optional(z.enum(["auto", "required"])),
  tools: z.array(namedSchema),
});

/** The tools that the model sees. Throws if a choice names a tool that does not exist. */
export function chosenTools(
  tools: readonly Tool[],
  { allowed, mustCall, field }: ToolChoice,
  others: readonly string[],
): readonly Tool[] {
  const known = new Set([...tools.map(({ name }) => name), ...others]);
  const missing = [...(allowed ?? [])].find((name) => !known.has(name));
  if (missing !== undefined) {
    const message = `Cannot read the request: ${field} allows the tool "${missing}", which is not among its tools; send it, or remove it from the choice.`;
    throw new GatewayError("invalid-request", message, { param: field });
  }
  const shown = allowed === null ? tools : tools.filter(({ name }) => allowed.has(name));
  const named = mustCall === null || mustCall === "any" ? [] : mustCall;
  const absent = named.find((name) => !shown.some((tool) => tool.name === name));
  if (absent !== undefined || (mustCall === "any" && shown.length === 0)) {
    const what =
      absent === undefined
        ? `a call, but ${allowed === null ? "there are no functions" : "it allows no function"}`
        : `the tool "${absent}", which is not among its functions`;
    const message = `Cannot read the request: ${field} requires ${what}; send it, or leave the choice out.`;
    throw new GatewayError("invalid-request", message, { param: field });
  }
  return shown;
}

/** JSON text of an object with one more field, whose value is JSON text already. `fields`: at least one. */
export function withRaw(fields: object, name: string, json: string): string {
  return `${JSON.stringify(fields).slice(0, -1)},"${name}":${json}}`;
}

/** One server-sent event. */
export function sse(data: unknown, event: string | null = null): string {
  return `${event === null ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}
