// Any Hugging Face chat template as a function: the Jinja program compiled once, run with Python's semantics as transformers
// configures it, errors included. Every piece of the text knows the message it came from, where that can be followed. Also the functions that every
// template is given: Jinja's own, and the two that transformers adds.

import {
  bindArguments,
  bindPositional,
  Callable,
  type CallArguments,
  type DictEntry,
  emptyText,
  itemsOf,
  Namespace,
  PythonDict,
  PythonError,
  PythonObject,
  PythonRange,
  pythonTypeName,
  type PythonValue,
  templateText,
  textOf,
  TracedText,
  typeError,
  Undefined,
  valueError,
  AllowanceSpent,
  fromJson,
  itemsMade,
  limitError,
  PythonList,
  templateOrigin,
  toolsOrigin,
  unknownOrigin,
  withAllowance,
} from "../../python-semantics/index.ts";
import { ChatTemplateError, type ChatTemplate, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import { formatTime, parseLocalTime } from "./strftime.ts";
import { runBounded, TimeLimitError, withinTime } from "../../lib/deadline.ts";
import { finish, mapInSteps, type Steps } from "../../lib/steps.ts";
import { parseTemplate } from "./parse-statement.ts";
import { Frame, maxTemplateLength, maxTimeMs, Run, unwatchedOperations, unwatchedStep } from "./run.ts";
import { Layout, Symbols } from "./scope.ts";
import { analyzeBody, compileBody } from "./statement.ts";

/**
 * Throws a {@link ChatTemplateError} for a template that Jinja cannot compile
 * ("TemplateSyntaxError", "TemplateAssertionError") or that uses an unsupported feature
 * ("unsupported"). The returned function throws one if the Jinja program raises, and "limit" for a
 * template that takes more than `run.ts` allows. `timeoutMs`: for compiling, and for each
 * rendering.
 */
export function compileChatTemplate(
  template: string,
  { timeoutMs = maxTimeMs }: { readonly timeoutMs?: number } = {},
): ChatTemplate {
  const { program, variables } = guarded(timeoutMs, () =>
    runBounded(() => {
      if (template.length > maxTemplateLength) throw limitError(`it has more than ${maxTemplateLength} characters`);
      return compileProgram(template);
    }, timeoutMs),
  );
  const limitOf = (input: TemplateInput): number => timeoutMs + timePerItemMs * itemsIn(input);
  const render = (input: TemplateInput): readonly TemplateSegment[] => {
    const limitMs = limitOf(input);
    return guarded(limitMs, () => executeBounded(() => finish(program(input, false).steps), limitMs));
  };
  const inSteps = (input: TemplateInput): Steps<readonly TemplateSegment[]> =>
    renderInSteps(program, input, limitOf(input));
  return Object.assign(render, { inSteps, variables });
}

/** Additional time for a rendering, per message and call: ten times what one takes. */
const timePerItemMs = 1;

function itemsIn({ messages }: TemplateInput): number {
  let items = messages.length;
  for (const message of messages) {
    if (!(message instanceof Map)) continue;
    for (const value of message.values()) if (Array.isArray(value)) items += value.length;
  }
  return items;
}

/**
 * A rendering has no side effects, so one that turns out to be long is started again with a clock.
 */
function executeBounded<T>(execute: () => T, timeoutMs: number): T {
  try {
    return withAllowance(unwatchedOperations, execute);
  } catch (error) {
    if (!(error instanceof AllowanceSpent)) throw error;
    return runBounded(execute, timeoutMs);
  }
}

/**
 * Renders in steps. The clock runs only during steps, so work for others between them does not
 * count against this rendering.
 */
function* renderInSteps(program: Program, input: TemplateInput, timeoutMs: number): Steps<readonly TemplateSegment[]> {
  try {
    return guarded(timeoutMs, () => withAllowance(unwatchedStep, () => finish(program(input, false).steps)));
  } catch (error) {
    if (!(error instanceof AllowanceSpent)) throw error;
  }
  yield;
  const { steps, run } = program(input, true);
  const bounded = withinTime(steps, timeoutMs);
  for (;;) {
    const step = guarded(timeoutMs, () => bounded.next());
    if (step.done === true) return step.value;
    const before = itemsMade();
    yield;
    run.excludeItems(itemsMade() - before);
  }
}

/**
 * Runs a function and reports its errors in the terms of templates; a stack that nesting has used
 * up is one of them.
 */
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

/** One rendering of a template, not yet started; all loops are one step if it is not `inSteps`, which costs less. */
type Program = (
  input: TemplateInput,
  inSteps: boolean,
) => { readonly run: Run; readonly steps: Steps<readonly TemplateSegment[]> };

/** Variables that every template is given, so they are not variables of the caller. */
const conversationVariables: ReadonlySet<string> = new Set(["messages", "tools", "add_generation_prompt"]);

function compileProgram(template: string): { readonly program: Program; readonly variables: readonly string[] } {
  const statements = parseTemplate(template);
  const layout = new Layout(null);
  const symbols = new Symbols(null, layout);
  analyzeBody(statements, symbols);
  const execute = compileBody(statements, { symbols, isSoft: false, isInLoop: false });
  const enter = symbols.compileEntry();
  const always = templateGlobals(null);
  const read = [...layout.given]
    .filter((name) => !always.has(name) && !conversationVariables.has(name) && !name.endsWith("_token"))
    .sort();
  const program: Program = (input, inSteps) => {
    const variables = templateGlobals(input.context.now);
    const run = new Run(variables, template.length);
    const frame = new Frame(layout.size, null, run);
    function* steps(): Steps<readonly TemplateSegment[]> {
      yield* setVariables(variables, input);
      enter(frame);
      if (inSteps && execute.steps !== undefined) yield* execute.steps(frame);
      else execute(frame);
      return yield* run.toSegments();
    }
    return { run, steps: steps() };
  };
  return { program, variables: read };
}

/** Adds the variables that transformers gives to a template; later ones replace earlier ones. */
function* setVariables(
  variables: Map<string, PythonValue>,
  { messages, tools, addGenerationPrompt, kwargs, context }: TemplateInput,
): Steps<void> {
  for (const given of [context.specialTokens, kwargs]) {
    for (const [name, value] of given) variables.set(name, fromJson(value, templateOrigin));
  }
  const items = yield* mapInSteps(messages, (message, index) => {
    const origin = { source: "message", message: index } as const;
    return message instanceof Map ? PythonDict.fromJson(message, origin, index) : fromJson(message, origin);
  });
  variables
    .set("messages", PythonList.of(items))
    .set("tools", fromJson(tools, toolsOrigin))
    .set("documents", kwargs.has("documents") ? fromJson(kwargs.get("documents")!, unknownOrigin) : null)
    .set("add_generation_prompt", addGenerationPrompt);
}

/** The longest range that the sandbox allows. */
const maxRange = 100_000;

/**
 * `now` is the time that `strftime_now` writes: local, ISO without a zone; `null` makes it raise
 * "no-clock".
 */
export function templateGlobals(now: string | null): Map<string, PythonValue> {
  return new Map<string, PythonValue>([
    ["range", new Callable("range", makeRange)],
    ["dict", new Callable("dict", makeDict, "type")],
    ["namespace", new Callable("namespace", makeNamespace, "type")],
    ["cycler", new Callable("cycler", ({ positional }) => new Cycler(positional), "type")],
    ["joiner", new Callable("joiner", makeJoiner, "type")],
    [
      "lipsum",
      new Callable("lipsum", () => {
        throw new PythonError("unsupported", '"lipsum" is not supported');
      }),
    ],
    ["raise_exception", new Callable("raise_exception", raise)],
    ["strftime_now", new Callable("strftime_now", (args) => writeTime(args, now))],
  ]);
}

function makeRange(args: CallArguments): PythonRange {
  const bounds = bindPositional("range", args, 1, 3).map((value) => {
    if (typeof value === "number" || typeof value === "boolean") return Number(value);
    throw typeError(`a range takes integers, not a ${pythonTypeName(value)}`);
  });
  const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]!] : (bounds as [number, number, number?]);
  if (step === 0) throw valueError("the step of a range is zero");
  const range = new PythonRange(start, stop, step);
  if (range.length > maxRange) throw new PythonError("OverflowError", `a range has more than ${maxRange} items`);
  return range;
}

function makeDict(args: CallArguments): PythonDict {
  const [source, ...rest] = args.positional;
  if (rest.length > 0) throw typeError("dict takes one positional argument");
  const named = Array.from(args.named, ([key, value]) => ({ key: templateText(key), value }));
  if (source === undefined) return PythonDict.of(named);
  const entries = source instanceof PythonDict ? [...source.entries.values()] : itemsOf(source).map(pairOf);
  return PythonDict.of([...entries, ...named]);
}

function pairOf(value: PythonValue): DictEntry {
  const pair = itemsOf(value);
  if (pair.length !== 2) throw valueError("a dict is made of pairs");
  return { key: pair[0]!, value: pair[1]! };
}

function makeNamespace(args: CallArguments): Namespace {
  const entries = [...makeDict(args).entries.values()];
  return new Namespace(new Map(entries.map(({ key, value }) => [textOf(key).text, value])));
}

function makeJoiner(args: CallArguments): Callable {
  const [separator = templateText(", ")] = bindArguments("joiner", args, ["sep"]);
  let isUsed = false;
  const join = (): PythonValue => {
    const text = isUsed ? separator : emptyText;
    isUsed = true;
    return text;
  };
  return new Callable("joiner", join, "Joiner");
}

class Cycler extends PythonObject {
  readonly typeName = "Cycler";
  readonly #items: readonly PythonValue[];
  #position = 0;

  constructor(items: readonly PythonValue[]) {
    super();
    if (items.length === 0) throw new PythonError("RuntimeError", "there is nothing to cycle through");
    this.#items = items;
  }

  override attribute(name: string): PythonValue | undefined {
    if (name === "current") return this.#items[this.#position % this.#items.length]!;
    if (name === "next") return new Callable("next", () => this.#items[this.#position++ % this.#items.length]!);
    return name === "reset" ? new Callable("reset", () => ((this.#position = 0), null)) : undefined;
  }
}

function raise(args: CallArguments): never {
  const [message] = bindArguments("raise_exception", args, ["message"], 1);
  throw new ChatTemplateError("raise", textOf(message!).text);
}

function writeTime(args: CallArguments, now: string | null): TracedText {
  const [format] = bindArguments("strftime_now", args, ["format"], 1);
  if (format instanceof Undefined || !(format instanceof TracedText)) {
    throw typeError(`strftime_now takes a string, not a ${pythonTypeName(format!)}`);
  }
  if (now === null) throw new PythonError("no-clock", "it reads the time, and no clock is given; pass one as `now`");
  return templateText(formatTime(parseLocalTime(now), format.text));
}
