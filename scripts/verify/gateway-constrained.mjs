// Client libraries that force a tool or a format of the answer, on the gateway with an engine that
// takes constraints. The engine samples a text of the form that it is given, and xgrammar, whose
// grammars SGLang and vLLM compile, must accept this text under the constraint as both engines send
// it. Part of `npm run verify -- gateway`.

import { copyFileSync, cpSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { grammarConstraints, nativeConstraint } from "../../dist/http/index.js";
import { gateway } from "../../dist/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { root } from "../run-command.mjs";
import { installPackages } from "./npm.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";
import { runClient } from "./run-client.mjs";

/** @import { Constraint, TextForm } from "../../dist/core/index.js" */

const packages = {
  openai: "7.57.0",
  "@openai/agents": "0.20.0",
  ai: "7.0.173",
  "@ai-sdk/openai": "4.0.118",
  "@ai-sdk/openai-compatible": "3.0.92",
  "@ai-sdk/anthropic": "4.0.105",
  "@anthropic-ai/sdk": "1.14.0",
  "@google/genai": "2.32.0",
  "@mlc-ai/web-xgrammar": "0.1.27",
  zod: "4.6.7",
};

/**
 * Name, program, arguments; a Python program has a package whose version is shown, and its packages.
 *
 * @type {readonly { name: string, program: string, more?: readonly string[], shown?: string, packages?: readonly string[] }[]}
 */
const clients = [
  { name: "openai, Chat and Responses", program: "constrained-openai.mjs" },
  { name: "@anthropic-ai/sdk", program: "constrained-anthropic.mjs" },
  { name: "@google/genai", program: "constrained-google.mjs" },
  { name: "ai generateObject, OpenAI-compatible", program: "constrained-ai-sdk.mjs", more: ["compatible"] },
  { name: "ai generateObject, Responses", program: "constrained-ai-sdk.mjs", more: ["responses"] },
  { name: "ai generateObject, Anthropic", program: "constrained-ai-sdk.mjs", more: ["anthropic"] },
  { name: "@openai/agents with an outputType", program: "constrained-agents.mjs" },
  {
    name: "Pydantic AI with an output type",
    program: "constrained_pydantic_ai.py",
    shown: "pydantic-ai-slim",
    packages: ["pydantic-ai-slim[openai]==2.68.0"],
  },
  {
    name: "smolagents ToolCallingAgent",
    program: "constrained_smolagents.py",
    shown: "smolagents",
    packages: ["smolagents[openai]==1.26.0"],
  },
  { name: "dspy with a JSON adapter", program: "constrained_dspy.py", shown: "dspy", packages: ["dspy==3.4.1"] },
];

const limitMs = 120_000;

/**
 * @param {string} work A folder for its output.
 * @param {string} [only] Part of the name of the clients to run. Default: all of them.
 * @returns {Promise<number>} Number of failures.
 */
export async function verifyConstrained(work, only = "") {
  const folder = await installPackages("verify-gateway-constrained", packages);
  cpSync(join(root, "scripts", "verify", "gateway-clients"), folder, { recursive: true });
  const accepts = await loadXgrammar(folder);
  /** @type {string[]} */
  let problems = [];
  let constrained = 0;
  const tokenizer = createReadableTokenizer();
  const engine = createScriptedEngine({
    tokenizer,
    constraints: grammarConstraints,
    script: async ({ prompt, constraint = null }) => {
      if (constraint === null) return "It is sunny in Rome.<|im_end|>";
      constrained++;
      const steps = tokenizer.decode(prompt.view()).split("<|im_start|>assistant").length - 1;
      const text = textOf(constraint, steps);
      if (!(await accepts(constraint, text))) problems.push(`xgrammar refuses ${JSON.stringify(text.slice(0, 300))}`);
      return `${text}<|im_end|>`;
    },
  });
  const running = await gateway({ engine, model: "readable", out: join(work, "constrained"), listen: "127.0.0.1:0" });
  let failed = 0;
  for (const { name, program, more = [], shown = null, packages: inPython } of clients) {
    if (!name.includes(only)) continue;
    const python = inPython === undefined ? null : makeEnvironment({ name: `gateway-${program}`, packages: inPython });
    const version = python === null || shown === null ? "" : ` ${versionOf(python.bin("python"), shown)}`;
    [problems, constrained] = [[], 0];
    const { id, key } = await running.open({ task: name });
    const command = python === null ? process.execPath : python.bin("python");
    const run = await runClient(command, [join(folder, program), ...more], {
      folder,
      key,
      url: running.url,
      limitMs,
    });
    await running.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
    const ignored = running.sessions.find((one) => one.id === id)?.counters.ignoredFields ?? {};
    await running.end(id);
    if (run.code !== 0) problems.push(`the program ended with ${run.code}: ${run.output.slice(-1500)}`);
    else if (!run.output.includes("constrained: ok"))
      problems.push(`it did not get its object: ${run.output.slice(-500)}`);
    if (constrained === 0) problems.push("no call was constrained");
    const uncounted = Object.keys(ignored).filter((field) => /format|tool_choice/.test(field));
    if (uncounted.length > 0) problems.push(`ignored: ${uncounted.join(", ")}`);
    if (problems.length > 0) failed++;
    process.stdout.write(
      `${problems.length === 0 ? "ok    " : "FAILED"} ${name}${version}: ${constrained} constrained turns, each accepted by xgrammar ${packages["@mlc-ai/web-xgrammar"]}\n`,
    );
    for (const problem of new Set(problems)) process.stdout.write(`         ${problem}\n`);
  }
  await running.close();
  return failed;
}

/**
 * @typedef {(form: string) => Promise<unknown>} Compile
 * @typedef {{ Grammar: { fromJSONSchema: Compile, fromEBNF: Compile, fromStructuralTag: Compile },
 *   Testings: { isGrammarAcceptString: (grammar: unknown, text: string) => Promise<boolean> } }} Xgrammar
 */

/**
 * Loads xgrammar's build for JavaScript, whose package names a script a module.
 *
 * @param {string} folder
 * @returns {Promise<(constraint: Constraint, text: string) => Promise<boolean>>} Whether a constraint accepts a text.
 */
async function loadXgrammar(folder) {
  const script = join(folder, "xgrammar.cjs");
  copyFileSync(join(folder, "node_modules", "@mlc-ai", "web-xgrammar", "lib", "index.js"), script);
  const { Grammar, Testings } = /** @type {Xgrammar} */ (createRequire(import.meta.url)(script));
  return async (constraint, text) => {
    const { type, text: form } = nativeConstraint(constraint);
    const compile = {
      json: () => Grammar.fromJSONSchema(form),
      ebnf: () => Grammar.fromEBNF(form),
      regex: () => Grammar.fromStructuralTag(JSON.stringify({ type: "structural_tag", format: { type: "regex", pattern: form } })), // prettier-ignore
      "structural-tag": () => Grammar.fromStructuralTag(form),
    };
    const grammar = await compile[type]();
    const isAccepted = await Testings.isGrammarAcceptString(grammar, text);
    return isAccepted && !(await Testings.isGrammarAcceptString(grammar, `${text}!`));
  };
}

/** A text under the constraint: calls the first tool at first, and the last one later. @param {Constraint} constraint @param {number} steps */
function textOf({ text }, steps) {
  switch (text.type) {
    case "json-schema":
      return valueText(text.schema);
    case "tool-call":
      return written(/** @type {TextForm} */ (steps > 1 ? text.calls.at(-1) : text.calls[0]));
    case "tool-call-or-answer":
      return written(steps > 1 || text.calls.length === 0 ? text.answer : /** @type {TextForm} */ (text.calls[0]));
    default:
      throw new Error(`No client sends a constraint of kind ${text.type}.`);
  }
}

/** @param {TextForm} form @returns {string} */
function written(form) {
  switch (form.type) {
    case "literal":
      return form.text;
    case "json":
      return valueText(form.schema);
    case "sequence":
      return form.parts.map(written).join("");
    default:
      throw new Error(`The format of this model has no ${form.type}.`);
  }
}

/**
 * The parts of JSON Schema that the clients use.
 *
 * @typedef {{ readonly $ref?: string, readonly const?: unknown, readonly enum?: readonly unknown[], readonly type?: string | readonly string[],
 *   readonly minimum?: number, readonly items?: Schema, readonly properties?: Readonly<Record<string, Schema>>,
 *   readonly anyOf?: readonly Schema[], readonly oneOf?: readonly Schema[], readonly allOf?: readonly Schema[],
 *   readonly $defs?: Readonly<Record<string, Schema>>, readonly definitions?: Readonly<Record<string, Schema>> }} Schema
 */

/** A value that is valid under a schema, both as JSON text. @param {string} text */
function valueText(text) {
  const schema = /** @type {Schema} */ (JSON.parse(text));
  return JSON.stringify(valueOf(schema, schema));
}

/** @param {Schema} schema @param {Schema} whole @returns {unknown} */
function valueOf(schema, whole) {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split("/").at(-1) ?? "";
    return valueOf(whole.$defs?.[name] ?? whole.definitions?.[name] ?? {}, whole);
  }
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const [either] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  if (either !== undefined) return valueOf(either, whole);
  switch ([schema.type].flat()[0]) {
    case "integer":
    case "number":
      return Math.max(schema.minimum ?? 21, 21);
    case "boolean":
      return true;
    case "array":
      return [valueOf(schema.items ?? {}, whole)];
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, one]) => [name, valueOf(one, whole)]),
      );
    default:
      return "Rome";
  }
}
