// What the dialects have in common: bodies are checked by schemas, contents are text, tools are functions. What a model of text
// cannot be shown (images, sound, files) is refused by name.

import { z } from "zod";
import { type AssistantMessage, type SamplingParams, type Tool, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { mapInSteps, type Steps } from "../../lib/steps.ts";
import { type Dialect, GatewayError, type GatewayRequest } from "../request.ts";

/** Throws a `GatewayError` that names the first field that does not fit. `path`: where the value stands in the body. */
export function readBody<T>(schema: z.ZodType<T>, body: unknown, path: readonly string[] = []): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = [...path, ...(issue?.path ?? []).map(String)];
  const param = place.length === 0 ? null : place.join(".");
  throw new GatewayError(
    "invalid-request",
    `Cannot read the request: ${param === null ? "its body" : param}: ${issue?.message ?? "is not what it should be"}.`,
    { param },
  );
}

/** A list whose items {@link readLists} reads before the body is read, because it may be very long. */
export function longList<T extends z.ZodType>(_item: T): z.ZodArray<z.ZodType<z.output<T>>> {
  return z.array(z.custom<z.output<T>>());
}

/** The body with the items of its long lists read. Throws as {@link readBody}. */
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

export function unsupported(what: string, param: string | null): GatewayError {
  return new GatewayError("unsupported", `Cannot serve the request: ${what}.`, { param });
}

const textTypes = new Set(["text", "input_text", "output_text", "refusal", "summary_text"]);

export const partSchema = z.looseObject({
  type: z.string(),
  text: z.string().nullish(),
  refusal: z.string().nullish(),
});
export const contentSchema = z.union([z.string(), z.array(partSchema)]);
export type Content = z.infer<typeof contentSchema>;

/** Parts of a list stand on lines of their own, as servers join them for templates that take text. */
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

/** In the one form that templates are shown, whatever the dialect: switches of an API are not the model's business. */
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

/** The sampling parameters that a body sets, under the names of its dialect. */
function readSampling(body: Readonly<Record<string, unknown>>): {
  readonly sampling: Partial<SamplingParams>;
  readonly samplingNames: readonly string[];
} {
  const set = samplingFields.filter(({ wire }) => body[wire] !== undefined && body[wire] !== null);
  const known: Record<string, unknown> = {};
  for (const { wire, name } of set) if (name !== null) known[name] = body[wire];
  return { sampling: known, samplingNames: set.map(({ wire }) => wire) };
}

/** `name`: as {@link SamplingParams} has it; `null`: it has no such parameter. */
const samplingFields = [
  { wire: "temperature", name: "temperature" },
  { wire: "top_p", name: "topP" },
  { wire: "top_k", name: "topK" },
  { wire: "min_p", name: "minP" },
  { wire: "repetition_penalty", name: "repetitionPenalty" },
  { wire: "seed", name: "seed" },
  { wire: "presence_penalty", name: null },
  { wire: "frequency_penalty", name: null },
  { wire: "logit_bias", name: null },
] as const satisfies readonly { readonly wire: string; readonly name: keyof SamplingParams | null }[];

const number = z.number().nullish();
/** Of those fields. */
export const samplingShape = {
  temperature: z.number().min(0).max(100).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).nullish(),
  seed: z.int().nullish(),
  presence_penalty: number,
  frequency_penalty: number,
};

/** Of every body. */
export const commonShape = { model: z.string().default(""), stream: z.boolean().nullish(), ...samplingShape };

/** A request out of a body: what its dialect does not have is as if its client had not said it. */
export function requestOf(
  body: { readonly model: string; readonly stream?: boolean | null | undefined },
  parts: Partial<GatewayRequest> & Pick<GatewayRequest, "messages" | "maxTokens">,
): GatewayRequest {
  return {
    promptTokens: null,
    tools: [],
    mayCall: false,
    stop: [],
    isStreamed: body.stream ?? false,
    model: body.model,
    ...readSampling(body),
    ignoredTools: 0,
    includesUsage: true,
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

export const limitSchema = z.int().min(1).nullish();

/** An assistant message out of parts that a wire format keeps apart. */
export class AssistantBuilder {
  #texts: string[] = [];
  #reasoning: string[] = [];
  #calls: AssistantMessage["toolCalls"][number][] = [];
  #isOpen = false;

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

  /** The message so far, and a new one begins; `null`: there was none. */
  take(): AssistantMessage | null {
    if (!this.#isOpen) return null;
    const message: AssistantMessage = {
      role: "assistant",
      content: this.#texts.join("\n"),
      reasoning: this.#reasoning.length === 0 ? null : this.#reasoning.join("\n"),
      toolCalls: this.#calls,
    };
    [this.#texts, this.#reasoning, this.#calls, this.#isOpen] = [[], [], [], false];
    return message;
  }
}

/** Names of called tools by call id, for results that do not bear them. */
export function callNames(): { add(id: string, name: string): void; of(id: string): string } {
  const names = new Map<string, string>();
  return { add: (id, name) => void names.set(id, name), of: (id) => names.get(id) ?? "unknown" };
}

/** One server-sent event. */
export function sse(data: unknown, event: string | null = null): string {
  return `${event === null ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}
