// Any Hugging Face chat template as a function: the Jinja program compiled once, run with Python's semantics as transformers
// configures it. Slower than a native template and without a family's knowledge, but the same text, errors included. Every
// piece of the text knows the message it came from, where that can be followed.

import { PythonError } from "../../python-semantics/index.ts";
import { runBounded, TimeLimitError } from "../../lib/deadline.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import { analyzeBody } from "./compile/analyze.ts";
import { compileBody } from "./compile/compile-body.ts";
import { Frame, Run } from "./compile/run.ts";
import { compileEntry, type Scope } from "./compile/scope.ts";
import { Layout, Symbols } from "./compile/symbols.ts";
import { templateGlobals } from "./globals.ts";
import { maxTemplateLength, maxTimeMs, startItems } from "./limits.ts";
import { parseTemplate } from "./parser.ts";
import { fromJson, PythonDict, PythonList } from "./values/containers.ts";
import { limitError, pythonError } from "./values/raise.ts";
import { templateOrigin, toolsOrigin, unknownOrigin } from "./values/traced-text.ts";
import type { Value } from "./values/value.ts";

/**
 * Throws a {@link ChatTemplateError} for a template that Jinja cannot compile ("TemplateSyntaxError",
 * "TemplateAssertionError") or that uses what is not supported here ("unsupported"). What it returns throws one where the
 * Jinja program raises, and "limit" for a template that wants more than `limits.ts` gives. `timeoutMs`: for compiling, and for
 * each rendering.
 */
export function compileChatTemplate(
  template: string,
  { timeoutMs = maxTimeMs }: { readonly timeoutMs?: number } = {},
): ChatTemplate {
  if (template.length > maxTemplateLength) throw limitError(`it has more than ${maxTemplateLength} characters`);
  const execute = withinTime(() => compileProgram(template), timeoutMs);
  return (input) => withinTime(() => withPythonErrors(() => execute(input)), timeoutMs);
}

function withinTime<T>(run: () => T, timeoutMs: number): T {
  try {
    return runBounded(run, timeoutMs);
  } catch (error) {
    if (error instanceof TimeLimitError) throw limitError(`it takes more than ${timeoutMs / 1000} seconds`);
    throw error;
  }
}

function compileProgram(template: string): ChatTemplate {
  return withPythonErrors(() => {
    const statements = parseTemplate(template);
    const layout = new Layout(null);
    const scope: Scope = { symbols: new Symbols(null, layout), isSoft: false, isInLoop: false, compileBody };
    analyzeBody(statements, scope.symbols);
    const execute = compileBody(statements, scope);
    const enter = compileEntry(scope);
    return (input: TemplateInput): readonly TemplateSegment[] => {
      startItems();
      const run = new Run(variablesOf(input));
      const frame = new Frame(layout.size, null, run);
      enter(frame);
      execute(frame);
      return run.output.toSegments();
    };
  });
}

/** What transformers hands to a template, the later ones going before the earlier ones. */
function variablesOf({ messages, tools, addGenerationPrompt, kwargs, context }: TemplateInput): Map<string, Value> {
  const variables = templateGlobals(context.now);
  for (const given of [context.specialTokens, kwargs]) {
    for (const [name, value] of given) variables.set(name, fromJson(value, templateOrigin));
  }
  const items = messages.map((message, index) => {
    const origin = { source: "words", message: index } as const;
    return message instanceof Map ? PythonDict.fromMessage(message, origin, index) : fromJson(message, origin);
  });
  return variables
    .set("messages", PythonList.of(items))
    .set("tools", fromJson(tools, toolsOrigin))
    .set("documents", kwargs.has("documents") ? fromJson(kwargs.get("documents")!, unknownOrigin) : null)
    .set("add_generation_prompt", addGenerationPrompt);
}

/** Errors of shared helpers, and of a stack that nesting has used up, in the terms of templates. */
function withPythonErrors<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof ChatTemplateError) throw error;
    if (error instanceof PythonError) throw pythonError(error.pythonType, error.message);
    if (error instanceof RangeError) throw pythonError("RecursionError", "it is nested too deep");
    throw error;
  }
}
