// The provider library (`ai` and its `@ai-sdk/*` packages): the package of each provider, and the
// code that loads and binds it. They are optional peers: nothing is loaded before a provider is
// named, and only this file loads them.

import { createRequire } from "node:module";

import { ConfigurationError, type Tool, toolParameters } from "../core/index.ts";
import { toPlain } from "../python-semantics/json/index.ts";
import type { ChatMessage, ChatReply, LibraryLoader } from "./chat-model.ts";
import { argumentsOf, safeName } from "./openai-chat.ts";

/** Loads packages installed next to this one. */
export const installedLibraries: LibraryLoader = {
  isInstalled: (name) => {
    try {
      createRequire(import.meta.url).resolve(name);
      return true;
    } catch (error) {
      // Any other error means that the package is installed.
      return !(error instanceof Error && "code" in error && error.code === "MODULE_NOT_FOUND");
    }
  },
  load: (name) => import(name) as Promise<unknown>,
};

export type Provider = {
  readonly name: string;
  readonly packageName: string;
  /** The argument of npm install: the major version that matches `ai@6`. */
  readonly installName: string;
  /**
   * Name of the export that creates the provider; `null` selects the package's only export whose
   * name begins with "create".
   */
  readonly factory: string | null;
  /** The usual variables of its key; if empty, the library looks for a key itself. */
  readonly keyVariables: readonly string[];
};

/** Providers by name: the export that creates the provider, and the usual variables of its key. */
const listed: Readonly<Record<string, readonly [factory: string, ...keyVariables: string[]]>> = {
  openai: ["createOpenAI", "OPENAI_API_KEY"],
  anthropic: ["createAnthropic", "ANTHROPIC_API_KEY"],
  google: ["createGoogleGenerativeAI", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
};

export const listedProviders: readonly string[] = Object.keys(listed);

/** A listed provider, or any other with a package named `@ai-sdk/<name>`. */
export function providerNamed(name: string): Provider {
  const packageName = `@ai-sdk/${name}`;
  if (!Object.hasOwn(listed, name)) {
    return { name, packageName, installName: packageName, factory: null, keyVariables: [] };
  }
  const [factory, ...keyVariables] = listed[name]!;
  return { name, packageName, installName: `${packageName}@3`, factory, keyVariables };
}

/** A reply with the token counts reported by the library. */
export type Generated = Omit<ChatReply, "usage"> & {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
};

export type Generate = (
  messages: readonly ChatMessage[],
  options: { readonly tools: readonly Tool[]; readonly settings: Readonly<Record<string, unknown>> },
) => Promise<Generated>;

/** The part of the package `ai` that we use. */
type Library = {
  readonly generateText?: (input: unknown) => Promise<{
    readonly text?: string;
    readonly reasoningText?: string;
    readonly finishReason?: string;
    readonly usage?: { readonly inputTokens?: number; readonly outputTokens?: number };
  }>;
  readonly jsonSchema?: (schema: unknown) => unknown;
  readonly wrapLanguageModel?: (input: { readonly model: unknown; readonly middleware: object }) => unknown;
};

/** A part of a provider's answer. */
type Part = {
  readonly type: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
};

/**
 * Loads the library and binds a model of the provider. `settings` are passed to the provider's
 * factory. Rejects with a `ConfigurationError` if a package lacks an expected export.
 */
export async function loadModel(
  libraries: LibraryLoader,
  input: { readonly provider: Provider; readonly model: string; readonly settings: object },
): Promise<Generate> {
  const [library, packageExports] = await Promise.all([
    libraries.load("ai") as Promise<Library>,
    libraries.load(input.provider.packageName),
  ]);
  const model = factoryOf(packageExports, input.provider)(input.settings)(input.model);
  const generateText = required(library, "generateText");
  // The library would print warnings about settings to the console, between our output.
  (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS ??= false;
  return async (messages, { tools, settings }) => {
    const parts: Part[] = [];
    const withTools =
      tools.length === 0
        ? { model }
        : { model: tapped(library, model, parts), tools: libraryTools(tools, required(library, "jsonSchema")) };
    const [first, ...rest] = messages;
    const result = await generateText(
      first?.role === "system"
        ? { ...settings, ...withTools, system: first.content, messages: libraryMessages(rest) }
        : { ...settings, ...withTools, messages: libraryMessages(messages) },
    );
    return {
      text: result.text ?? "",
      reasoning: result.reasoningText ?? null,
      toolCalls: parts.flatMap(({ type, toolCallId, toolName, input: given }) =>
        type === "tool-call"
          ? [{ id: toolCallId ?? null, name: toolName ?? "", argumentsText: typeof given === "string" ? given : "" }]
          : [],
      ),
      isTruncated: result.finishReason === "length",
      inputTokens: result.usage?.inputTokens ?? null,
      outputTokens: result.usage?.outputTokens ?? null,
    };
  };
}

/**
 * Wraps the model so that its answers are also stored in `parts`: the library keeps calls only in
 * parsed form, without their text.
 */
function tapped(library: Library, model: unknown, parts: Part[]): unknown {
  const wrapGenerate = async ({ doGenerate }: { readonly doGenerate: () => Promise<{ readonly content: Part[] }> }) => {
    const answer = await doGenerate();
    parts.push(...answer.content);
    return answer;
  };
  return required(library, "wrapLanguageModel")({ model, middleware: { specificationVersion: "v3", wrapGenerate } });
}

function libraryTools(tools: readonly Tool[], jsonSchema: NonNullable<Library["jsonSchema"]>): object {
  return Object.fromEntries(
    tools.map((tool) => {
      const body = tool.definition.get("function");
      const description = body instanceof Map ? body.get("description") : null;
      const inputSchema = jsonSchema(toPlain(toolParameters(tool)) ?? { type: "object", properties: {} });
      return [tool.name, { inputSchema, ...(typeof description === "string" ? { description } : {}) }];
    }),
  );
}

/**
 * Messages in the library's format. A message without text and calls is omitted, because some
 * providers refuse an empty one.
 */
function libraryMessages(messages: readonly ChatMessage[]): object[] {
  return messages.flatMap((message): object[] => {
    const { role, content } = message;
    if (role === "tool") {
      const { callId, name } = message;
      if (callId === null) return [{ role: "user", content }];
      const output = { type: "text", value: content };
      return [{ role, content: [{ type: "tool-result", toolCallId: callId, toolName: safeName(name), output }] }];
    }
    const calls = "toolCalls" in message ? message.toolCalls : [];
    if (calls.length === 0) return role === "assistant" && content === "" ? [] : [{ role, content }];
    const parts = calls.map((call) => ({
      type: "tool-call",
      toolCallId: call.id,
      toolName: safeName(call.name),
      input: toPlain(argumentsOf(call) ?? new Map()),
    }));
    return [{ role, content: content === "" ? parts : [{ type: "text", text: content }, ...parts] }];
  });
}

function required<Name extends keyof Library>(library: Library, name: Name): NonNullable<Library[Name]> {
  const found = library[name];
  if (typeof found === "function") return found;
  throw new ConfigurationError(`Cannot use the library "ai": it has no "${name}"; run "npm install ai@6".`);
}

type Factory = (settings: object) => (model: string) => unknown;

function factoryOf(packageExports: unknown, provider: Provider): Factory {
  const found = Object.entries(packageExports as Record<string, unknown>).find(
    ([name, value]) =>
      typeof value === "function" &&
      (provider.factory === null ? name.startsWith("create") : name === provider.factory),
  );
  if (found !== undefined) return found[1] as Factory;
  throw new ConfigurationError(
    `Cannot use the library "${provider.packageName}": it has no "${provider.factory ?? "create..."}"; run "npm install ${provider.installName}".`,
  );
}
