// The prompts of simulated users as functions, made from the texts of `user_prompts.json`. Their type is what the users' room
// takes in place of its own prompts, written down again: environments do not import users.

import { ConfigurationError } from "../../../core/index.ts";
import { JsonSyntaxError, parseJson, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { Template } from "./python/read-template.ts";
import { fillTemplate, parseTemplate } from "./template-text.ts";

/** Fits `UserPrompts` of the users' room. */
export type TauUserPrompts = {
  readonly greeting: string;
  readonly system: (instruction: string | null) => string;
  readonly reactSystem: (instruction: string | null) => string;
  readonly check: (input: ReviewedLine) => string;
  readonly reflect: (input: ReviewedLine) => string;
};

type ReviewedLine = { readonly transcript: string; readonly response: string };

/** Reads the text of a `user_prompts.json`; `file` is for messages. Throws a `ConfigurationError` when it is no such file. */
export function parseUserPrompts(text: string, file: string): TauUserPrompts {
  const texts = parse(text, file);
  const read = (key: string, placeholders: readonly string[]): Template => {
    const value = texts instanceof Map ? texts.get(key) : undefined;
    if (typeof value !== "string") {
      throw cannotRead(file, `it has no text "${key}", one text for each prompt is wanted`);
    }
    const template = parseTemplate(value, placeholders);
    if ("problem" in template) throw cannotRead(file, `in "${key}", ${template.problem}`);
    return template;
  };
  const readSystem = (key: string): ((instruction: string | null) => string) => {
    const given = read(key, ["instruction"]);
    const absent = fillTemplate(read(`${key}_without_instruction`, []), {});
    return (instruction) => (instruction === null ? absent : fillTemplate(given, { instruction }));
  };
  const readReview = (key: string): ((input: ReviewedLine) => string) => {
    const template = read(key, ["transcript", "response"]);
    return ({ transcript, response }) => fillTemplate(template, { transcript, response });
  };
  return {
    greeting: fillTemplate(read("greeting", []), {}),
    system: readSystem("system"),
    reactSystem: readSystem("react_system"),
    check: readReview("check"),
    reflect: readReview("reflect"),
  };
}

function parse(text: string, file: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) throw cannotRead(file, `it is no JSON (${error.pythonMessage})`);
    throw error;
  }
}

const cannotRead = (file: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot read the prompts of simulated users in "${file}": ${problem}; prepare the folder again, or correct the file.`,
  );
