import type { ArgumentNodes, Expression } from "../nodes.ts";
import { PythonDict } from "../values/containers.ts";
import { itemsOf } from "../values/iteration.ts";
import { typeError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { type CallArguments, noArguments, type Value } from "../values/value.ts";
import type { Evaluate, Frame } from "./run.ts";

/** The arguments of a call, evaluated left to right. Throws a "TypeError" for spreads of the wrong kind. */
export function compileArguments(
  nodes: ArgumentNodes,
  compile: (part: Expression) => Evaluate,
): (frame: Frame) => CallArguments {
  const positional = nodes.positional.map(compile);
  const named = nodes.named.map(({ name, value }) => [name, compile(value)] as const);
  const spread = nodes.spread === null ? null : compile(nodes.spread);
  const namedSpread = nodes.namedSpread === null ? null : compile(nodes.namedSpread);
  if (positional.length === 0 && named.length === 0 && spread === null && namedSpread === null)
    return () => noArguments;
  return (frame) => {
    const values = positional.map((evaluate) => evaluate(frame));
    const byName = new Map<string, Value>(named.map(([name, evaluate]) => [name, evaluate(frame)]));
    if (namedSpread !== null) addNamed(byName, namedSpread(frame));
    return { positional: spread === null ? values : [...values, ...itemsOf(spread(frame))], named: byName };
  };
}

function addNamed(byName: Map<string, Value>, spread: Value): void {
  if (!(spread instanceof PythonDict)) throw typeError("only a dict gives named arguments");
  for (const { key, value } of spread.entries.values()) {
    if (!(key instanceof TracedText) || byName.has(key.text))
      throw typeError("a named argument is no name, or given twice");
    byName.set(key.text, value);
  }
}
