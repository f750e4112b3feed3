// The prompts of simulated users as functions, made from the templates of `user_prompts.json`.
// Their type repeats the type of prompts that `users` accepts, because environments do not import
// users. Templates are text in the syntax of Python's `str.format` (only `{name}` for a
// placeholder, `{{` and `}}` for braces), so that a person can edit them.

import type { SyntaxNode } from "@lezer/common";
import { ConfigurationError } from "../../../core/index.ts";
import { type JsonObject, JsonSyntaxError, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import {
  childrenOf,
  findBinding,
  isDescription,
  problemAt,
  type PythonSource,
  quote,
  readAssignment,
  readScope,
  type Scope,
  statementsOf,
  textOf,
} from "../../checkout/python-source.ts";
import {
  readItems,
  readLiteral,
  readTemplate,
  type Template,
  type TemplateNames,
} from "../../checkout/read-literal.ts";

function formatTemplate(template: Template): string {
  return template
    .map((part) =>
      typeof part === "string" ? part.replaceAll("{", "{{").replaceAll("}", "}}") : `{${part.placeholder}}`,
    )
    .join("");
}

/**
 * Parses the output of {@link formatTemplate}. Returns the reason, as a sentence part, if the text
 * is not such a template.
 */
function parseTemplate(text: string, placeholders: readonly string[]): Template | string {
  const parts: (string | { readonly placeholder: string })[] = [];
  for (const [part] of text.matchAll(/\{\{|\}\}|\{[^}]*\}?|\}|[^{}]+/g)) {
    if (part === "}") return 'a single "}" stands in it, "}}" is expected';
    if (part === "{{" || part === "}}") parts.push(part[0]!);
    else if (!part.startsWith("{")) parts.push(part);
    else {
      const name = part.slice(1).replace(/\}$/, "");
      if (!part.endsWith("}") || !placeholders.includes(name)) {
        const known = placeholders.map((placeholder) => `{${placeholder}}`).join(", ");
        return `${JSON.stringify(`{${name.slice(0, 40)}}`)} is none of its placeholders (${known || "none"})`;
      }
      parts.push({ placeholder: name });
    }
  }
  return parts;
}

/** Replaces all placeholders with values; a placeholder without a value becomes "". */
function fillTemplate(template: Template, values: Readonly<Record<string, string>>): string {
  return template.map((part) => (typeof part === "string" ? part : (values[part.placeholder] ?? ""))).join("");
}

/** Compatible with `UserPrompts` of `users`. */
export type TauUserPrompts = {
  readonly greeting: string;
  readonly system: (instruction: string | null) => string;
  readonly reactSystem: (instruction: string | null) => string;
  readonly check: (input: ReviewedLine) => string;
  readonly reflect: (input: ReviewedLine) => string;
};

type ReviewedLine = { readonly transcript: string; readonly response: string };

/**
 * Parses the text of a `user_prompts.json`; `file` is for messages. Throws a `ConfigurationError`
 * for any other text.
 */
export function parseUserPrompts(text: string, file: string): TauUserPrompts {
  let prompts: JsonValue;
  try {
    prompts = parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw cannotRead(file, `it is not JSON (${error.pythonMessage})`);
    throw error;
  }
  const read = (key: string, placeholders: readonly string[]): Template => {
    const value = prompts instanceof Map ? prompts.get(key) : undefined;
    if (typeof value !== "string") {
      throw cannotRead(file, `it has no string "${key}", one string for each prompt is expected`);
    }
    const template = parseTemplate(value, placeholders);
    if (typeof template === "string") throw cannotRead(file, `in "${key}", ${template}`);
    return template;
  };
  const systemPrompt = (key: string): ((instruction: string | null) => string) => {
    const given = read(key, ["instruction"]);
    const absent = fillTemplate(read(`${key}_without_instruction`, []), {});
    return (instruction) => (instruction === null ? absent : fillTemplate(given, { instruction }));
  };
  const reviewPrompt = (key: string): ((input: ReviewedLine) => string) => {
    const template = read(key, ["transcript", "response"]);
    return ({ transcript, response }) => fillTemplate(template, { transcript, response });
  };
  return {
    greeting: fillTemplate(read("greeting", []), {}),
    system: systemPrompt("system"),
    reactSystem: systemPrompt("react_system"),
    check: reviewPrompt("check"),
    reflect: reviewPrompt("reflect"),
  };
}

const cannotRead = (file: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot read the prompts of simulated users in "${file}": ${problem}; prepare the folder again, or correct the file.`,
  );

// Reads the prompts of upstream's simulated users from the functions that build them, and only the
// prompts: `users` defines the order of model calls, and the use of the replies.

const userClasses = [
  "LLMUserSimulationEnv",
  "ReactUserSimulationEnv",
  "VerifyUserSimulationEnv",
  "ReflectionUserSimulationEnv",
] as const;

/**
 * The content of `user_prompts.json` in a prepared folder. Throws a `ConfigurationError` that names
 * file and line.
 */
export function readUserPromptContents(source: PythonSource): JsonObject {
  const scope = readScope(source, source.top);
  const [plain, react, verify, reflection] = userClasses;
  for (const name of [verify, reflection]) refuseMethod(source, scope, name, "build_system_prompt");
  const prompts = new Map<string, string>([
    ["greeting", formatTemplate([readGreeting(source, scope)])],
    ["system", readSystem(source, scope, plain, given)],
    ["system_without_instruction", readSystem(source, scope, plain, absent)],
    ["react_system", readSystem(source, scope, react, given)],
    ["react_system_without_instruction", readSystem(source, scope, react, absent)],
    ["check", readReview(source, scope, "verify")],
    ["reflect", readReview(source, scope, "reflect")],
  ]);
  return prompts;
}

const placeholder = (name: string): Template => [{ placeholder: name }];
const given: TemplateNames = new Map([["instruction", placeholder("instruction")]]);
const absent: TemplateNames = new Map([["instruction", null]]);

/**
 * The agent's first utterance, given to every user: the second message with which `reset` of every
 * class begins.
 */
function readGreeting(source: PythonSource, scope: Scope): string {
  const greetings = new Map<string, SyntaxNode>();
  for (const name of userClasses) {
    const methods = readScope(source, findBinding(source, scope, name, "class").node);
    if (name !== userClasses[0] && !methods.bindings.has("reset")) continue;
    const { node } = findBinding(source, methods, "reset", "function");
    greetings.set(readFirstWords(source, node), node);
  }
  const [[greeting] = [""], second] = greetings;
  if (second !== undefined) throw problemAt(source, second[1], "not all simulated users are greeted alike");
  return greeting;
}

function readFirstWords(source: PythonSource, method: SyntaxNode): string {
  for (const statement of statementsOf(method)) {
    const [target, , value] = childrenOf(statement);
    const isMessages = target?.name === "MemberExpression" && textOf(source, target) === "self.messages";
    if (statement.name !== "AssignStatement" || !isMessages || value === undefined) continue;
    const [, second, ...rest] = readItems(source, value);
    const message = second === undefined || rest.length > 0 ? null : readLiteral(source, second);
    const content = message instanceof Map && message.get("role") === "user" ? message.get("content") : null;
    if (typeof content === "string") return content;
    throw problemAt(source, value, "a conversation does not begin with a system and a user message");
  }
  throw problemAt(source, method, '"self.messages" is not assigned');
}

/** The prompt that `build_system_prompt` of a class returns. */
function readSystem(source: PythonSource, scope: Scope, className: string, names: TemplateNames): string {
  const methods = readScope(source, findBinding(source, scope, className, "class").node);
  const { node } = findBinding(source, methods, "build_system_prompt", "function");
  const known = new Map(names);
  for (const statement of statementsOf(node)) {
    if (isDescription(statement)) continue;
    const [assigned] = (statement.name === "AssignStatement" ? readAssignment(source, statement) : null) ?? [];
    if (assigned?.[1].type === "assignment") {
      known.set(assigned[0], readTemplate(source, assigned[1].value, known));
      continue;
    }
    const [keyword, value, ...rest] = childrenOf(statement);
    if (keyword?.name === "return" && value !== undefined && rest.length === 0) {
      return formatTemplate(readTemplate(source, value, known));
    }
    throw problemAt(source, statement, `a prompt is built in a way not known (${quote(source, statement)})`);
  }
  throw problemAt(source, node, "the function returns nothing");
}

function refuseMethod(source: PythonSource, scope: Scope, className: string, method: string): void {
  const { node } = findBinding(source, scope, className, "class");
  const [binding] = readScope(source, node).bindings.get(method) ?? [];
  if (binding !== undefined) throw problemAt(source, binding.node, `${className} has a prompt of its own`);
}

/** The text that `verify` or `reflect` sends: its variable `prompt`, which is assigned once. */
function readReview(source: PythonSource, scope: Scope, functionName: string): string {
  const { node } = findBinding(source, scope, functionName, "function");
  const [first, second] = [...findWrites(source, node, "prompt")];
  if (first === undefined) throw problemAt(source, node, `"${functionName}" has no variable "prompt"`);
  if (second !== undefined) throw problemAt(source, second, '"prompt" is written a second time');
  const [assigned] = (first.name === "AssignStatement" ? readAssignment(source, first) : null) ?? [];
  if (assigned?.[1].type !== "assignment" || !statementsOf(node).some(({ from }) => from === first.from)) {
    throw problemAt(source, first, '"prompt" is not simply assigned');
  }
  const names: TemplateNames = new Map(["transcript", "response"].map((name) => [name, placeholder(name)]));
  return formatTemplate(readTemplate(source, assigned[1].value, names));
}

/** Assignments and updates of a name anywhere in a function, nested blocks included. */
function* findWrites(source: PythonSource, owner: SyntaxNode, name: string): Iterable<SyntaxNode> {
  const cursor = owner.cursor();
  do {
    if (cursor.name !== "AssignStatement" && cursor.name !== "UpdateStatement") continue;
    const [target] = childrenOf(cursor.node);
    if (target !== undefined && textOf(source, target) === name) yield cursor.node;
  } while (cursor.next() && cursor.from < owner.to);
}
