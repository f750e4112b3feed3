import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { ConfigurationError, type Message, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createChatModel } from "./create-chat-model.ts";
import { answering, bodyOf } from "./fake-chat.test-helper.ts";
import type { ChatModelOptions, LibraryLoader } from "./chat-model.ts";
import { installedLibraries } from "./provider-library.ts";

const key = "sk-open-sesame-123";
const none: LibraryLoader = { isInstalled: () => false, load: () => Promise.reject(new Error("not installed")) };

type Settings = { readonly apiKey?: string; readonly fetch: typeof fetch };
type Input = {
  readonly model: { readonly ask: (body: unknown) => Promise<{ text: string; usage: object }> };
  readonly system: string;
  readonly messages: unknown;
  readonly maxRetries: number;
  readonly abortSignal: AbortSignal;
};

/**
 * A stand-in for `ai` and a provider's package: posts its input, like the real ones, and reads a
 * plain answer.
 */
const posting: LibraryLoader = {
  isInstalled: () => true,
  load: (name) =>
    Promise.resolve(
      name === "ai"
        ? {
            generateText: ({ model, system, messages, maxRetries }: Input) =>
              model.ask({ system, messages, maxRetries }),
          }
        : {
            createAnthropic: (settings: Settings) => (model: string) => ({
              ask: async (body: object) => {
                const response = await settings.fetch("https://api.anthropic.com/v1/messages?beta=1", {
                  method: "POST",
                  headers: { "x-api-key": settings.apiKey ?? "" },
                  body: JSON.stringify({ model, ...body }),
                });
                const text = await response.text();
                if (response.ok) return JSON.parse(text) as { text: string; usage: object };
                throw Object.assign(new Error(`Refused with ${settings.apiKey}.`), {
                  statusCode: response.status,
                  responseHeaders: Object.fromEntries(response.headers),
                  responseBody: text,
                });
              },
            }),
          },
    ),
};

const modelOf = (options: ChatModelOptions) =>
  createChatModel(
    { part: "user", title: 'user "llm"' },
    { variables: { ANTHROPIC_API_KEY: key }, libraries: posting, ...options },
  );
const opening = [
  { role: "system", content: "Play the user." },
  { role: "user", content: "Hi!" },
] as const;

describe("createChatModel() with a named provider", () => {
  it("sends system and messages through the library, over our pool, without the library's own retries", async () => {
    const http = answering({ body: { text: "hello", usage: { inputTokens: 1_000_000, outputTokens: 1_000_000 } } });
    const reply = await modelOf({ http, model: "anthropic/claude-haiku-4-5" }).complete(opening);
    expect(reply).toEqual({
      text: "hello",
      reasoning: null,
      toolCalls: [],
      isTruncated: false,
      usage: { modelCalls: 1, inputTokens: 1_000_000, outputTokens: 1_000_000, cost: 6 },
    });
    expect(http.requests[0]).toMatchObject({
      base: { origin: "https://api.anthropic.com" },
      path: "/v1/messages?beta=1",
      headers: { "x-api-key": key },
    });
    const { model, system, messages, maxRetries } = bodyOf(http.requests[0]);
    expect([model, maxRetries, system]).toEqual(["claude-haiku-4-5", 0, "Play the user."]);
    expect(messages).toEqual([{ role: "user", content: "Hi!" }]);
  });

  it("turns the library's errors into failures without keys", async () => {
    const http = answering(
      { status: 529, headers: { "retry-after": "2" }, body: "busy" },
      { status: 401, body: `bad key ${key}` },
    );
    const model = modelOf({ http, provider: "anthropic", model: "claude-x" });
    const failure = () => model.complete(opening).catch((reason: unknown) => reason);
    expect(await failure()).toMatchObject({ failure: { code: "server-error", retryable: true }, retryAfterMs: 2000 });
    const error = await failure();
    expect(error).toMatchObject({ failure: { boundary: "user", code: "unauthorized", cause: "bad key ***" } });
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(key);
  });

  it.each([
    ["openai/gpt-4o", 'run "npm install ai@6 @ai-sdk/openai@3"'],
    ["google/gemini-2.5-flash", 'run "npm install ai@6 @ai-sdk/google@3"'],
    ["mistral/small", 'run "npm install ai@6 @ai-sdk/mistral"'],
  ])("refuses %s before any call when the library is missing, with the command that installs it", (model, remedy) => {
    expect(() => modelOf({ model, libraries: none })).toThrow(ConfigurationError);
    expect(() => modelOf({ model, libraries: none })).toThrow(remedy);
  });

  it("finds a package that is installed and misses one that is not", () => {
    expect(installedLibraries.isInstalled("undici")).toBe(true);
    expect(installedLibraries.isInstalled("@ai-sdk/no-such-provider")).toBe(false);
  });

  it("refuses a provider without its key, and names the variable", () => {
    expect(() => modelOf({ model: "anthropic/claude-x", variables: {} })).toThrow("set ANTHROPIC_API_KEY");
  });

  it("refuses a library that is not the one it needs", async () => {
    const wrong: LibraryLoader = { isInstalled: () => true, load: () => Promise.resolve({}) };
    const model = modelOf({ model: "anthropic/claude-x", libraries: wrong, http: answering() });
    await expect(model.complete(opening)).rejects.toThrow('it has no "createAnthropic"');
  });
});

describe("tools through the provider library", () => {
  const definition = {
    type: "function",
    function: { name: "get_order", description: "Looks.", parameters: { type: "object", properties: {} } },
  };
  const tools = [toolFromDefinition(fromPlain(definition) as JsonObject)];
  type Asked = {
    readonly model: { readonly doGenerate: () => Promise<unknown> };
    readonly messages: unknown;
    readonly tools: unknown;
    readonly seed: number;
    readonly temperature: number;
  };

  /**
   * A stand-in for the tool support of `ai`: wraps the model, lets it answer, and keeps calls only
   * in parsed form.
   */
  function withTools(content: readonly object[]) {
    const asked: Asked[] = [];
    const libraries: LibraryLoader = {
      isInstalled: () => true,
      load: (name) =>
        Promise.resolve(
          name === "ai"
            ? {
                jsonSchema: (schema: unknown) => ({ schema }),
                wrapLanguageModel: ({
                  model,
                  middleware,
                }: {
                  model: unknown;
                  middleware: Record<string, unknown>;
                }) => ({
                  doGenerate: () =>
                    (middleware["wrapGenerate"] as (input: unknown) => Promise<unknown>)({
                      doGenerate: () => Promise.resolve({ content, model }),
                    }),
                }),
                generateText: async (input: Asked) => {
                  asked.push(input);
                  await input.model.doGenerate();
                  return { text: "Let me look.", reasoningText: "hm", finishReason: "length", toolCalls: ["parsed"] };
                },
              }
            : { createAnthropic: () => () => ({ name: "model" }) },
        ),
    };
    return { libraries, asked };
  }

  it("gives the calls as the provider wrote them, however odd", async () => {
    const { libraries, asked } = withTools([
      { type: "text", text: "Let me look." },
      { type: "tool-call", toolCallId: "t1", toolName: "get_order", input: '{"id": 100.0}' },
      { type: "tool-call", toolCallId: "t2", toolName: "nope", input: '{"a": ' },
      { type: "tool-call", input: { a: 1 } },
    ]);
    const model = modelOf({ model: "anthropic/claude-x", libraries, http: answering(), sampling: { temperature: 0 } });
    expect(await model.complete(opening, { tools, seed: 5 })).toEqual({
      text: "Let me look.",
      reasoning: "hm",
      toolCalls: [
        { id: "t1", name: "get_order", argumentsText: '{"id": 100.0}' },
        { id: "t2", name: "nope", argumentsText: '{"a": ' },
        { id: null, name: "", argumentsText: "" },
      ],
      isTruncated: true,
      usage: { modelCalls: 1, inputTokens: 0, outputTokens: 0, cost: null },
    });
    expect(asked[0]).toMatchObject({
      seed: 5,
      temperature: 0,
      tools: { get_order: { description: "Looks.", inputSchema: { schema: definition.function.parameters } } },
    });
  });

  it("shows calls and results in the library's shape, and leaves silence out", async () => {
    const { libraries, asked } = withTools([]);
    const call = (argumentsText: string) => [{ id: "c1", name: "get order", argumentsText }];
    const messages: readonly Message[] = [
      { role: "system", content: "Be kind." },
      { role: "assistant", content: "Hm.", reasoning: "secret", toolCalls: call('{"id": "#W1"}') },
      { role: "tool", content: "found", name: "get order", callId: "c1" },
      { role: "assistant", content: "", reasoning: null, toolCalls: call("[") },
      { role: "tool", content: "Error", name: "unknown", callId: null },
      { role: "assistant", content: "", reasoning: null, toolCalls: [] },
    ];
    await modelOf({ model: "anthropic/claude-x", libraries, http: answering() }).complete(messages, { tools });
    const part = { type: "tool-call", toolCallId: "c1", toolName: "get_order" };
    expect(asked[0]?.messages).toEqual([
      {
        role: "assistant",
        content: [
          { type: "text", text: "Hm." },
          { ...part, input: { id: "#W1" } },
        ],
      },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "c1", toolName: "get_order", output: { type: "text", value: "found" } },
        ],
      },
      { role: "assistant", content: [{ ...part, input: {} }] },
      { role: "user", content: "Error" },
    ]);
  });
});
