// The fields of requests as typed by the client libraries of OpenAI, Anthropic and Google: read from the
// declarations of installed packages, and compared with those that the table of the gateway's
// dialects was written for. A new field has no row yet, and the gateway only counts it.
//
// `node scripts/verify/gateway-fields.mjs <folder>` compares the packages of a folder; `--write`
// records them.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { root } from "../run-command.mjs";

const recordedFile = join("tests", "goldens", "gateway", "client-fields.json");

/** Declarations of each dialect's fields; for some fields, the declarations of their contents. */
const openai = {
  chat: "openai/resources/chat/completions/completions.d.ts",
  completions: "openai/resources/completions.d.ts",
  responses: "openai/resources/responses/responses.d.ts",
  shared: "openai/resources/shared.d.ts",
};
const anthropic = {
  messages: "@anthropic-ai/sdk/resources/messages/messages.d.ts",
  beta: "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts",
};

const google = "@google/genai/dist/genai.d.ts";

/** Options of @google/genai that it keeps to itself. */
const ownOptions = ["httpOptions", "abortSignal", "automaticFunctionCalling", "automaticContinuation"];
/** Options that it sends inside `generationConfig`; it types them beside those of the request. */
const inConfig = (/** @type {string} */ name) => (isBeside(name) ? name : `generationConfig.${name}`);
const isBeside = (/** @type {string} */ name) =>
  [
    "cachedContent",
    "continuationToken",
    "generationOutputConfig",
    "labels",
    "modelArmorConfig",
    "safetySettings",
    "serviceTier",
    "store",
    "systemInstruction",
    "toolConfig",
    "tools",
  ].includes(name);

/**
 * File, type, and the field to which these fields belong.
 *
 * @type {Readonly<Record<string, readonly (readonly [string, string, string?])[]>>}
 */
const sources = {
  chat: [
    [openai.chat, "ChatCompletionCreateParamsBase"],
    [openai.chat, "ChatCompletionStreamOptions", "stream_options"],
  ],
  completions: [
    [openai.completions, "CompletionCreateParamsBase"],
    [openai.chat, "ChatCompletionStreamOptions", "stream_options"],
  ],
  responses: [
    [openai.responses, "ResponseCreateParamsBase"],
    [openai.responses, "ResponseTextConfig", "text"],
    [openai.shared, "Reasoning", "reasoning"],
  ],
  messages: [
    [anthropic.messages, "MessageCreateParamsBase"],
    [anthropic.messages, "MessageCountTokensParams"],
    [anthropic.messages, "OutputConfig", "output_config"],
    [anthropic.beta, "MessageCreateParamsBase"],
    [anthropic.beta, "BetaOutputConfig", "output_config"],
  ],
  google: [
    [google, "GenerateContentConfig"],
    [google, "GenerationConfig", "generationConfig"],
    [google, "ToolConfig", "toolConfig"],
  ],
};

/** @typedef {{ readonly packages: Readonly<Record<string, string>>, readonly fields: Readonly<Record<string, readonly string[]>> }} ClientFields */

/**
 * @param {string} folder That has the packages in its node_modules.
 * @returns {ClientFields}
 */
export function clientFields(folder) {
  const read = (/** @type {string} */ path) => readFileSync(join(folder, "node_modules", path), "utf8");
  const versionOf = (/** @type {string} */ name) =>
    /** @type {{ version: string }} */ (JSON.parse(read(join(name, "package.json")))).version;
  const fields = Object.entries(sources).map(([dialect, types]) => {
    const names = types.flatMap(([file, type, parent]) =>
      fieldsOf(read(file), type)
        .filter((name) => !ownOptions.includes(name))
        .map((name) => (type === "GenerateContentConfig" ? inConfig(name) : name))
        .map((name) => (parent === undefined ? name : `${parent}.${name}`)),
    );
    return /** @type {const} */ ([dialect, [...new Set(names)].sort()]);
  });
  const packages = ["openai", "@anthropic-ai/sdk", "@google/genai"].map(
    (name) => /** @type {const} */ ([name, versionOf(name)]),
  );
  return { packages: Object.fromEntries(packages), fields: Object.fromEntries(fields) };
}

/**
 * The names of the properties of an exported type, as its declaration lists them.
 *
 * @param {string} declarations @param {string} type
 */
export function fieldsOf(declarations, type) {
  const start = new RegExp(`^export (?:declare )?interface ${type} [^{]*\\{$`, "m").exec(declarations);
  if (start === null || start[0].includes(" extends ")) {
    throw new Error(
      `Cannot read the type "${type}": it is declared otherwise than it was; mend scripts/verify/gateway-fields.mjs.`,
    );
  }
  const rest = declarations.slice(start.index + start[0].length);
  // Members are indented by one level, their contents more, and the end is in the first column.
  const body = rest.slice(0, rest.search(/^\}/m)).replaceAll(/\/\*[^]*?\*\//g, "");
  const names = [...body.matchAll(/^ {4}(?:readonly )?(\w+)\??:/gm)].map(([, name = ""]) => name);
  if (names.length === 0) throw new Error(`Cannot read the type "${type}": no field of it was found.`);
  return names;
}

/** @returns {ClientFields} */
export function recordedFields() {
  return /** @type {ClientFields} */ (JSON.parse(readFileSync(join(root, recordedFile), "utf8")));
}

/**
 * Prints one line, and the differences.
 *
 * @param {string} folder
 * @returns {number} Number of dialects that differ.
 */
export function verifyFields(folder) {
  const [found, recorded] = [clientFields(folder), recordedFields()];
  const problems = Object.entries(found.fields).flatMap(([dialect, names]) => {
    const known = recorded.fields[dialect] ?? [];
    const added = names.filter((name) => !known.includes(name));
    const gone = known.filter((name) => !names.includes(name));
    if (added.length + gone.length === 0) return [];
    return [`${dialect}: new ${added.join(", ") || "none"}; gone ${gone.join(", ") || "none"}`];
  });
  const count = Object.values(found.fields).reduce((sum, names) => sum + names.length, 0);
  const versions = Object.entries(found.packages).map(([name, version]) => `${name} ${version}`);
  const verdict = problems.length === 0 ? "ok    " : "FAILED";
  process.stdout.write(`${verdict} ${count} fields of requests as ${versions.join(" and ")} type them\n`);
  for (const problem of problems) process.stdout.write(`         ${problem}\n`);
  return problems.length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder = ".", ...flags] = process.argv.slice(2);
  if (flags.includes("--write")) {
    writeFileSync(join(root, recordedFile), `${JSON.stringify(clientFields(folder), null, 2)}\n`);
  } else if (verifyFields(folder) > 0) process.exitCode = 1;
}
