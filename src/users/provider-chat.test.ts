import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { answering, bodyOf } from "./fake-chat.test-helper.ts";
import { llmUser, type ModelUserOptions } from "./llm-user.ts";
import type { LibraryLoader } from "./provider-library.ts";
import { testTask } from "./test-task.test-helper.ts";

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

const userOf = (options: ModelUserOptions) =>
  llmUser({ variables: { ANTHROPIC_API_KEY: key }, libraries: posting, ...options }).create(testTask(), { seed: 1 });

describe("llmUser() with a named provider", () => {
  it("sends system and messages through the library, over our pool, without the library's own retries", async () => {
    const http = answering({ body: { text: "hello", usage: { inputTokens: 1_000_000, outputTokens: 1_000_000 } } });
    const line = await userOf({ http, model: "anthropic/claude-haiku-4-5" }).open();
    expect(line).toMatchObject({ text: "hello", usage: { modelCalls: 1, inputTokens: 1_000_000, cost: 6 } });
    expect(http.requests[0]).toMatchObject({
      base: { origin: "https://api.anthropic.com" },
      path: "/v1/messages?beta=1",
      headers: { "x-api-key": key },
    });
    const { model, system, messages, maxRetries } = bodyOf(http.requests[0]);
    expect([model, maxRetries]).toEqual(["claude-haiku-4-5", 0]);
    expect(system).toContain("Cancel my order.");
    expect(messages.map(({ role }) => role)).toEqual(["user"]);
  });

  it("turns the library's errors into failures without keys, and retries those that may pass", async () => {
    const retry = { maxAttempts: 2, maxElapsedMs: 1000, baseDelayMs: 0, maxDelayMs: 0 };
    const http = answering(
      { status: 529, headers: { "retry-after": "0" }, body: "busy" },
      { status: 401, body: `bad key ${key}` },
    );
    const error: unknown = await userOf({ http, retry, provider: "anthropic", model: "claude-x" })
      .open()
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ failure: { boundary: "user", code: "unauthorized", cause: "bad key ***" } });
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain(key);
    expect(http.requests.length).toBe(2);
  });

  it.each([
    ["openai/gpt-4o", 'run "npm install ai@6 @ai-sdk/openai@3"'],
    ["google/gemini-2.5-flash", 'run "npm install ai@6 @ai-sdk/google@3"'],
    ["mistral/small", 'run "npm install ai@6 @ai-sdk/mistral"'],
  ])("refuses %s before any call when the library is missing, with the command that installs it", (model, remedy) => {
    expect(() => userOf({ model, libraries: none })).toThrow(ConfigurationError);
    expect(() => userOf({ model, libraries: none })).toThrow(remedy);
  });

  it("finds a package that is installed and misses one that is not", async () => {
    const { installedLibraries } = await import("./provider-library.ts");
    expect(installedLibraries.isInstalled("undici")).toBe(true);
    expect(installedLibraries.isInstalled("@ai-sdk/no-such-provider")).toBe(false);
  });

  it("refuses a provider without its key, and names the variable", () => {
    expect(() => userOf({ model: "anthropic/claude-x", variables: {} })).toThrow("set ANTHROPIC_API_KEY");
  });

  it("refuses a library that is not the one it needs", async () => {
    const wrong: LibraryLoader = { isInstalled: () => true, load: () => Promise.resolve({}) };
    await expect(userOf({ model: "anthropic/claude-x", libraries: wrong, http: answering() }).open()).rejects.toThrow(
      'it has no "createAnthropic"',
    );
  });
});
