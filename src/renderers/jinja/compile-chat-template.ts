// Any Hugging Face chat template as a function: the Jinja program compiled once, run with Python's semantics as transformers
// configures it, errors included. Every piece of the text knows the message it came from, where that can be followed.

import { runBounded, TimeLimitError } from "../../lib/deadline.ts";
import {
  AllowanceSpent,
  fromJson,
  limitError,
  PythonDict,
  PythonError,
  PythonList,
  type PythonValue,
  templateOrigin,
  toolsOrigin,
  unknownOrigin,
  withAllowance,
} from "../../python-semantics/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import { templateGlobals } from "./globals.ts";
import { parseTemplate } from "./parse-statement.ts";
import { Frame, maxTemplateLength, maxTimeMs, Run, unwatchedOperations } from "./run.ts";
import { Layout, Symbols } from "./scope.ts";
import { analyzeBody, compileBody } from "./statement.ts";

/**
 * Throws a {@link ChatTemplateError} for a template that Jinja cannot compile ("TemplateSyntaxError",
 * "TemplateAssertionError") or that uses what is not supported here ("unsupported"). What it returns throws one where the
 * Jinja program raises, and "limit" for a template that takes more than `run.ts` allows. `timeoutMs`: for compiling, and for
 * each rendering.
 */
export function compileChatTemplate(
  template: string,
  { timeoutMs = maxTimeMs }: { readonly timeoutMs?: number } = {},
): ChatTemplate {
  const execute = guarded(timeoutMs, () =>
    runBounded(() => {
      if (template.length > maxTemplateLength) throw limitError(`it has more than ${maxTemplateLength} characters`);
      return compileProgram(template);
    }, timeoutMs),
  );
  return (input) => guarded(timeoutMs, () => executeBounded(() => execute(input), timeoutMs));
}

/** A rendering changes nothing, so one that turns out to be long is started again, by the clock. */
function executeBounded<T>(execute: () => T, timeoutMs: number): T {
  try {
    return withAllowance(unwatchedOperations, execute);
  } catch (error) {
    if (!(error instanceof AllowanceSpent)) throw error;
    return runBounded(execute, timeoutMs);
  }
}

/** With errors in the terms of templates; a stack that nesting has used up is one of them. */
function guarded<T>(timeoutMs: number, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof TimeLimitError) throw renderError("limit", `it takes more than ${timeoutMs / 1000} seconds`);
    if (error instanceof PythonError) throw renderError(error.pythonType, error.message);
    if (error instanceof RangeError) throw renderError("RecursionError", "it is nested too deep");
    throw error;
  }
}

function renderError(kind: string, reason: string): ChatTemplateError {
  return new ChatTemplateError(kind, `Cannot render the conversation with this chat template: ${reason}.`);
}

function compileProgram(template: string): ChatTemplate {
  const statements = parseTemplate(template);
  const layout = new Layout(null);
  const symbols = new Symbols(null, layout);
  analyzeBody(statements, symbols);
  const execute = compileBody(statements, { symbols, isSoft: false, isInLoop: false });
  const enter = symbols.compileEntry();
  return (input: TemplateInput): readonly TemplateSegment[] => {
    const run = new Run(variablesOf(input), template.length);
    const frame = new Frame(layout.size, null, run);
    enter(frame);
    execute(frame);
    return run.toSegments();
  };
}

/** The variables that transformers gives to a template; later ones replace earlier ones. */
function variablesOf({
  messages,
  tools,
  addGenerationPrompt,
  kwargs,
  context,
}: TemplateInput): Map<string, PythonValue> {
  const variables = templateGlobals(context.now);
  for (const given of [context.specialTokens, kwargs]) {
    for (const [name, value] of given) variables.set(name, fromJson(value, templateOrigin));
  }
  const items = messages.map((message, index) => {
    const origin = { source: "message", message: index } as const;
    return message instanceof Map ? PythonDict.fromJson(message, origin, index) : fromJson(message, origin);
  });
  return variables
    .set("messages", PythonList.of(items))
    .set("tools", fromJson(tools, toolsOrigin))
    .set("documents", kwargs.has("documents") ? fromJson(kwargs.get("documents")!, unknownOrigin) : null)
    .set("add_generation_prompt", addGenerationPrompt);
}
