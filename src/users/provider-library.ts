// The provider library (`ai` and its `@ai-sdk/*` packages): which package serves which provider, and how the library is
// loaded and bound. Optional peers: nothing is loaded before a provider is named, and this file alone loads them.

import { createRequire } from "node:module";
import { ConfigurationError } from "../core/index.ts";
import type { ChatMessage } from "./chat-model.ts";

/** How optional packages are found and loaded. */
export type LibraryLoader = {
  isInstalled(name: string): boolean;
  load(name: string): Promise<unknown>;
};

/** Packages beside ours. */
export const installedLibraries: LibraryLoader = {
  isInstalled: (name) => {
    try {
      createRequire(import.meta.url).resolve(name);
      return true;
    } catch (error) {
      // Any other fault means that the package is there.
      return !(error instanceof Error && "code" in error && error.code === "MODULE_NOT_FOUND");
    }
  },
  load: (name) => import(name) as Promise<unknown>,
};

export type Provider = {
  readonly name: string;
  readonly packageName: string;
  /** What npm is told to install: the major version that goes with `ai@6`. */
  readonly installName: string;
  /** Name of the export that makes the provider; `null`: the package's only export whose name begins with "create". */
  readonly factory: string | null;
  /** Where its key usually is; none: the library looks for itself. */
  readonly keyVariables: readonly string[];
};

const listed: readonly Provider[] = [
  {
    name: "openai",
    packageName: "@ai-sdk/openai",
    installName: "@ai-sdk/openai@3",
    factory: "createOpenAI",
    keyVariables: ["OPENAI_API_KEY"],
  },
  {
    name: "anthropic",
    packageName: "@ai-sdk/anthropic",
    installName: "@ai-sdk/anthropic@3",
    factory: "createAnthropic",
    keyVariables: ["ANTHROPIC_API_KEY"],
  },
  {
    name: "google",
    packageName: "@ai-sdk/google",
    installName: "@ai-sdk/google@3",
    factory: "createGoogleGenerativeAI",
    keyVariables: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
  },
];

export const listedProviders: readonly string[] = listed.map(({ name }) => name);

/** A listed provider, or any other whose package is called `@ai-sdk/<name>`. */
export function providerNamed(name: string): Provider {
  const packageName = `@ai-sdk/${name}`;
  return (
    listed.find((provider) => provider.name === name) ?? {
      name,
      packageName,
      installName: packageName,
      factory: null,
      keyVariables: [],
    }
  );
}

export type GenerateResult = {
  readonly text?: string;
  readonly usage?: { readonly inputTokens?: number; readonly outputTokens?: number };
};
export type Generate = (
  messages: readonly ChatMessage[],
  settings: Readonly<Record<string, unknown>>,
) => Promise<GenerateResult>;

/**
 * Loads the library and binds a model of the provider. `settings` go to the provider's factory. Rejects with a
 * `ConfigurationError` when a package is not what it should be.
 */
export async function loadModel(
  libraries: LibraryLoader,
  input: { readonly provider: Provider; readonly model: string; readonly settings: object },
): Promise<Generate> {
  const [library, packageExports] = await Promise.all([
    libraries.load("ai"),
    libraries.load(input.provider.packageName),
  ]);
  const model = factoryOf(packageExports, input.provider)(input.settings)(input.model);
  const { generateText } = library as { generateText?: (input: unknown) => Promise<GenerateResult> };
  if (typeof generateText !== "function") {
    throw new ConfigurationError('Cannot use the library "ai": it has no "generateText"; run "npm install ai@6".');
  }
  // The library prints hints about settings to the console, in the middle of our output.
  (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS ??= false;
  return ([first, ...rest], settings) =>
    generateText(
      first?.role === "system"
        ? { ...settings, model, system: first.content, messages: rest }
        : { ...settings, model, messages: [first, ...rest] },
    );
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
