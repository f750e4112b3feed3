// Macros, call blocks, and the one function that both are.

import { callValue } from "../operations/call.ts";
import type { CallStatement, MacroStatement, Parameter, Statement } from "../nodes.ts";
import { PythonDict, PythonTuple } from "../values/containers.ts";
import { typeError } from "../values/raise.ts";
import { templateText } from "../values/traced-text.ts";
import { Callable, type CallArguments, Undefined, type Value } from "../values/value.ts";
import { textOf } from "../values/value-text.ts";
import { analyzeBody, analyzeExpression } from "./analyze.ts";
import { compileArguments } from "./compile-arguments.ts";
import { compileExpression } from "./compile-expression.ts";
import { type Evaluate, type Execute, Frame } from "./run.ts";
import { compileEntry, innerScope, ownSlot, type Scope } from "./scope.ts";
import { Layout, Symbols } from "./symbols.ts";
import { usesName } from "./uses-name.ts";

export function compileMacro({ name, parameters, body }: MacroStatement, scope: Scope): Execute {
  const slot = ownSlot(scope, name);
  const define = compileFunction(name, { parameters, body }, scope);
  return (frame) => {
    frame.slots[slot] = define(frame);
    return "next";
  };
}

/** `{% call %}` hands its body to the callee as `caller`; `{% generation %}` only writes it. */
export function compileCallBlock({ call, parameters, body }: CallStatement, scope: Scope): Execute {
  if (call === null) return compileGeneration(body, scope);
  const callee = compileExpression(call.callee, scope);
  const args = compileArguments(call.args, (part) => compileExpression(part, scope));
  const define = compileFunction("caller", { parameters, body }, scope);
  return (frame) => {
    const caller = define(frame);
    const called = callee(frame);
    const { positional, named } = args(frame);
    frame.run.write(textOf(callValue(called, { positional, named: new Map(named).set("caller", caller) })));
    return "next";
  };
}

function compileGeneration(body: readonly Statement[], scope: Scope): Execute {
  const inner = innerScope(scope, { isInLoop: false });
  analyzeBody(body, inner.symbols);
  const enter = compileEntry(inner);
  const execute = scope.compileBody(body, inner);
  return (frame) => {
    enter(frame);
    return execute(frame);
  };
}

type FunctionNode = { readonly parameters: readonly Parameter[]; readonly body: readonly Statement[] };

/** Makes the macro anew each time its definition is reached, over the variables of that moment. */
function compileFunction(name: string, node: FunctionNode, outer: Scope): (frame: Frame) => Callable {
  const layout = new Layout(outer.symbols.layout);
  const symbols = new Symbols(outer.symbols, layout);
  const scope: Scope = { ...outer, symbols, isSoft: false, isInLoop: false };
  for (const parameter of node.parameters) symbols.declare(parameter.name);
  for (const { default: value } of node.parameters) if (value !== null) analyzeExpression(value, symbols);
  analyzeBody(node.body, symbols);
  const isUsed = (special: string): boolean =>
    usesName(node.body, special) && !node.parameters.some((parameter) => parameter.name === special);
  const slotIf = (special: string): number | null => (isUsed(special) ? symbols.declare(special).index : null);
  const binding: Binding = {
    name,
    parameters: node.parameters.map((parameter) => ({
      name: parameter.name,
      slot: ownSlot(scope, parameter.name),
      otherwise: defaultOf(parameter, scope),
    })),
    caller: slotIf("caller"),
    kwargs: slotIf("kwargs"),
    varargs: slotIf("varargs"),
  };
  const enter = compileEntry(scope);
  const execute = outer.compileBody(node.body, scope);
  return (defined) => {
    const { run } = defined;
    const call = (args: CallArguments): Value =>
      run.meter.descend(() => {
        const frame = new Frame(layout.size, defined, run);
        enter(frame);
        bindParameters(binding, args, frame);
        return run.capture(() => execute(frame));
      });
    return new Callable(name, call, "Macro");
  };
}

type Binding = {
  readonly name: string;
  readonly parameters: readonly { readonly name: string; readonly slot: number; readonly otherwise: Evaluate }[];
  /** Slots of the names that a macro is given when its body uses them. */
  readonly caller: number | null;
  readonly kwargs: number | null;
  readonly varargs: number | null;
};

function defaultOf({ name, default: value }: Parameter, scope: Scope): Evaluate {
  if (value !== null) return compileExpression(value, scope);
  const missing = new Undefined(`the parameter "${name}" was not provided`);
  return () => missing;
}

function bindParameters(
  { name, parameters, caller, kwargs, varargs }: Binding,
  args: CallArguments,
  frame: Frame,
): void {
  const named = new Map(args.named);
  parameters.forEach((parameter, index) => {
    const isPositional = index < args.positional.length;
    frame.slots[parameter.slot] = isPositional ? args.positional[index] : named.get(parameter.name);
    if (!isPositional) named.delete(parameter.name);
  });
  if (caller !== null) {
    frame.slots[caller] = named.get("caller") ?? new Undefined("no caller was given");
    named.delete("caller");
  }
  if (kwargs !== null) {
    frame.slots[kwargs] = PythonDict.of(Array.from(named, ([key, value]) => ({ key: templateText(key), value })));
  } else if (named.size > 0) {
    throw typeError(`the macro "${name}" takes no argument "${[...named.keys()][0]}"`);
  }
  if (varargs !== null) frame.slots[varargs] = new PythonTuple(args.positional.slice(parameters.length));
  else if (args.positional.length > parameters.length) {
    throw typeError(`the macro "${name}" takes at most ${parameters.length} arguments`);
  }
  for (const { slot, otherwise } of parameters) {
    if (frame.slots[slot] === undefined) frame.slots[slot] = otherwise(frame);
  }
}
