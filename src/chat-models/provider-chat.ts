// Chat models of named providers (`anthropic/...`, `google/...`, `openai/...`) through the optional
// provider library. Validates the settings at construction, loads the library with the first call,
// and converts its errors to failures.

import { AttributedError, ConfigurationError } from "../core/index.ts";
import { createRedactor, httpFetch, parseBaseUrl } from "../http/index.ts";
import { findApiKey } from "./api-key.ts";
import { type ChatModel, type NamedModelOptions, priceOf, usageOfCall } from "./chat-model.ts";
import { askingOf, modelFailure, type ModelPart, statusFailure } from "./model-failure.ts";
import { modelPool } from "./model-caller.ts";
import {
  installedLibraries,
  listedProviders,
  loadModel,
  providerNamed,
  type Generate,
  type Provider,
} from "./provider-library.ts";

/** Throws a `ConfigurationError` if the name has no provider, or a package or a key is missing. */
export function providerChat(options: NamedModelOptions): ChatModel {
  const { provider, model } = readName(options);
  const { role } = options;
  const name = `${provider.name}/${model}`;
  const libraries = options.libraries ?? installedLibraries;
  if (!libraries.isInstalled("ai") || !libraries.isInstalled(provider.packageName)) {
    throw new ConfigurationError(
      `Cannot create ${role.title} with model "${name}": the provider library is not installed; run ` +
        `"npm install ai@6 ${provider.installName}", or pass the url of an OpenAI-compatible server, which needs no library ` +
        `(known providers: ${listedProviders.join(", ")}).`,
    );
  }
  const { authorization = null } = options;
  const setting = `--${role.part}-authorization-env`;
  const base = parseBaseUrl(options.url ?? "http://provider", { what: `${role.part} model`, authorization, setting });
  const apiKey = authorization === null ? findApiKey(role.part, options, provider.keyVariables) : null;
  const [keyVariable] = provider.keyVariables;
  if (apiKey === null && authorization === null && keyVariable !== undefined && options.url === undefined) {
    throw new ConfigurationError(
      `Cannot create ${role.title} with model "${name}": there is no key; set ${keyVariable}, or name another variable with apiKeyVariable.`,
    );
  }
  const redact = createRedactor([apiKey, ...base.secrets, ...secretVariables(options.variables ?? process.env)]);
  const price = priceOf(name, options.prices);
  const settings = {
    // A library without a key looks for one itself, so it gets a placeholder; the header is used
    // instead.
    ...(authorization !== null ? { apiKey: "none" } : apiKey === null ? {} : { apiKey }),
    ...(options.url === undefined ? {} : { baseURL: base.origin + base.path }),
    fetch: httpFetch(options.http ?? modelPool(role.part, options.maxConcurrency), { access: base }),
  };
  let loading: Promise<Generate> | null = null;
  return {
    name,
    complete: async (messages, { tools = [], seed = null, sampling = {}, signal } = {}) => {
      const own = { ...options.sampling, ...sampling };
      const { temperature, topP, maxNewTokens: maxOutputTokens, stop: stopSequences } = own;
      const generate = await (loading ??= loadModel(libraries, { provider, model, settings }));
      try {
        const { inputTokens, outputTokens, ...reply } = await generate(messages, {
          tools,
          settings: {
            temperature,
            topP,
            maxOutputTokens,
            ...(stopSequences === undefined ? {} : { stopSequences }),
            ...(seed === null ? {} : { seed }),
            ...options.extraBody,
            maxRetries: 0,
            abortSignal: signal,
          },
        });
        return { ...reply, usage: usageOfCall({ input: inputTokens, output: outputTokens }, price) };
      } catch (error) {
        if (signal?.aborted) throw error;
        throw libraryFailure(error, { part: role.part, where: `"${name}"`, redact });
      }
    },
  };
}

function readName({ role, model, provider }: NamedModelOptions): {
  readonly provider: Provider;
  readonly model: string;
} {
  const slash = model.indexOf("/");
  const prefix = slash > 0 ? model.slice(0, slash) : null;
  const name = provider ?? prefix ?? "";
  if (!/^[a-z][a-z0-9-]*$/.test(name) || name === "openai-compatible") {
    const state = name === "openai-compatible" ? "its server has no address" : "it names no provider";
    throw new ConfigurationError(
      `Cannot create ${role.title} with model "${model}": ${state}; write "provider/model" ` +
        `(known providers: ${listedProviders.join(", ")}), or pass the url of an OpenAI-compatible server.`,
    );
  }
  return { provider: providerNamed(name), model: prefix === name ? model.slice(slash + 1) : model };
}

/** Values of variables whose names look like keys, because unlisted providers read their own. */
function secretVariables(variables: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(variables)
    .filter(([name, value]) => /(KEY|TOKEN|SECRET|PASSWORD)$/.test(name) && (value?.length ?? 0) >= 8)
    .map(([, value]) => value ?? "");
}

/**
 * The failure for an error of the library. Its errors contain requests, so none of them becomes the
 * cause.
 */
function libraryFailure(
  error: unknown,
  call: { readonly part: ModelPart; readonly where: string; readonly redact: (text: string) => string },
): AttributedError {
  const { part, where, redact } = call;
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at instanceof AttributedError) return at;
    if ("statusCode" in at && typeof at.statusCode === "number" && at.statusCode !== 200) {
      const headers = ("responseHeaders" in at ? at.responseHeaders : null) as
        | Record<string, string>
        | null
        | undefined;
      const body = "responseBody" in at && typeof at.responseBody === "string" ? at.responseBody : at.message;
      return statusFailure({
        part,
        status: at.statusCode,
        header: (name) => headers?.[name] ?? null,
        body: redact(body).slice(0, 300),
        where,
      });
    }
  }
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return modelFailure(part, "bad-reply", {
    message: `Cannot ${askingOf(part, where)}: the provider library could not read the answer.`,
    cause: redact(text).slice(0, 300),
  });
}
