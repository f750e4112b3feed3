import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { type ChatModelOptions, createChatModel } from "./create-chat-model.ts";
import { answering, bodyOf } from "./fake-chat.test-helper.ts";
import { installedLibraries, type LibraryLoader } from "./provider-library.ts";

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

/** Stands in for `ai` and a provider's package: posts what it is given, as the real ones do, and reads a plain answer. */
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
const asked = [
  { role: "system", content: "Play the user." },
  { role: "user", content: "Hi!" },
] as const;

describe("createChatModel() with a named provider", () => {
  it("sends system and messages through the library, over our pool, without the library's own retries", async () => {
    const http = answering({ body: { text: "hello", usage: { inputTokens: 1_000_000, outputTokens: 1_000_000 } } });
    const reply = await modelOf({ http, model: "anthropic/claude-haiku-4-5" }).complete(asked);
    expect(reply).toEqual({
      text: "hello",
      reasoning: null,
      toolCalls: [],
      isCutOff: false,
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
    const failure = () => model.complete(asked).catch((reason: unknown) => reason);
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
    await expect(model.complete(asked)).rejects.toThrow('it has no "createAnthropic"');
  });
});
