// The functions that every template is given: Jinja's own, and the two that transformers adds.

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
} from "../../python-semantics/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { formatTime, parseLocalTime } from "./strftime.ts";

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
  if (now === null) throw new PythonError("no-clock", "it needs the time and there is no clock; give one as `now`");
  return templateText(formatTime(parseLocalTime(now), format.text));
}
