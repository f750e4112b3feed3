// Statements to functions of a frame.

import {
  Callable,
  type CallArguments,
  isTruthy,
  itemsOf,
  iteratorOf,
  Namespace,
  PythonDict,
  PythonError,
  PythonIterator,
  PythonTuple,
  type PythonValue,
  templateText,
  textOf,
  type TracedText,
  typeError,
  Undefined,
  valueError,
} from "../../python-semantics/index.ts";
import { compileArguments, compileExpression, compileFilter } from "./compile-expression.ts";
import { callValue } from "./lookup.ts";
import { LoopState } from "./loop-state.ts";
import type { CallStatement, FilterNode, ForStatement, MacroStatement, Parameter, Statement, Target } from "./nodes.ts";
import { type Evaluate, type Execute, Frame } from "./run.ts";
import {
  analyzeBody,
  analyzeExpression,
  analyzeFilters,
  analyzeTarget,
  compileEntry,
  compileName,
  innerScope,
  Layout,
  ownSlot,
  type Scope,
  Symbols,
  usesName,
} from "./symbols.ts";

export function compileBody(statements: readonly Statement[], scope: Scope): Execute {
  const compiled = statements.map((statement) => compileStatement(statement, scope));
  const [only] = compiled;
  if (only !== undefined && compiled.length === 1) return only;
  return (frame) => {
    for (const execute of compiled) {
      const signal = execute(frame);
      if (signal !== "next") return signal;
    }
    return "next";
  };
}

function compileStatement(statement: Statement, scope: Scope): Execute {
  switch (statement.type) {
    case "output": {
      const evaluate = compileExpression(statement.expression, scope);
      return (frame) => {
        frame.run.write(textOf(evaluate(frame)));
        return "next";
      };
    }
    case "if": {
      const soft: Scope = { ...scope, isSoft: true };
      const test = compileExpression(statement.test, soft);
      const [body, otherwise] = [compileBody(statement.body, soft), compileBody(statement.otherwise, soft)];
      return (frame) => (isTruthy(test(frame)) ? body(frame) : otherwise(frame));
    }
    case "for":
      return compileFor(statement, scope);
    case "set": {
      const check = compileTargetCheck(statement.target, scope);
      const value = compileExpression(statement.value, scope);
      const assign = compileTarget(statement.target, scope);
      return (frame) => {
        check(frame);
        assign(frame, value(frame));
        return "next";
      };
    }
    case "set-block":
      return compileSetBlock(statement, scope);
    case "macro":
      return compileMacro(statement, scope);
    case "call-block":
      return compileCallBlock(statement, scope);
    case "filter-block": {
      const captured = compileCaptured(statement, scope);
      return (frame) => {
        frame.run.write(textOf(captured(frame)));
        return "next";
      };
    }
    case "with":
      return compileWith(statement, scope);
    case "break":
    case "continue": {
      const signal = statement.type;
      if (!scope.isInLoop) throw new PythonError("SyntaxError", `"${signal}" does not stand in the body of a loop`);
      return () => signal;
    }
    default:
      return statement satisfies never;
  }
}

function compileSetBlock(statement: Statement & { readonly type: "set-block" }, scope: Scope): Execute {
  const check = compileTargetCheck(statement.target, scope);
  const captured = compileCaptured(statement, scope);
  const assign = compileTarget(statement.target, scope);
  return (frame) => {
    check(frame);
    assign(frame, captured(frame));
    return "next";
  };
}

/** What a body writes, through filters, as a value. */
function compileCaptured(
  { filters, body }: { readonly filters: readonly FilterNode[]; readonly body: readonly Statement[] },
  scope: Scope,
): Evaluate {
  const inner = innerScope(scope, { isInLoop: false });
  analyzeBody(body, inner.symbols);
  analyzeFilters(filters, inner.symbols);
  const enter = compileEntry(inner);
  const execute = compileBody(body, inner);
  const capture = (frame: Frame): TracedText => {
    enter(frame);
    return frame.run.capture(() => execute(frame));
  };
  return filters.reduce<Evaluate>((operand, filter) => compileFilter(filter, operand, inner), capture);
}

function compileWith(statement: Statement & { readonly type: "with" }, scope: Scope): Execute {
  const values = statement.values.map((value) => compileExpression(value, scope));
  const inner = innerScope(scope);
  for (const target of statement.targets) analyzeTarget(target, inner.symbols, true);
  analyzeBody(statement.body, inner.symbols);
  const assigns = statement.targets.map((target) => compileTarget(target, inner));
  const enter = compileEntry(inner);
  const execute = compileBody(statement.body, inner);
  return (frame) => {
    const given = values.map((value) => value(frame));
    enter(frame);
    assigns.forEach((assign, index) => assign(frame, given[index]!));
    return execute(frame);
  };
}

type RunLoop = (frame: Frame, loop: LoopState) => void;

export function compileFor(statement: ForStatement, scope: Scope): Execute {
  const iterable = compileExpression(statement.iterable, scope);
  const filter = compileLoopFilter(statement, scope);
  if (!statement.isRecursive) {
    const runLoop = compileLoop(statement, scope);
    return (frame) => {
      runLoop(frame, new LoopState(filter(frame, iterable(frame))));
      return "next";
    };
  }
  // A recursive loop runs within itself, so its variables need a frame for each level.
  const layout = new Layout(scope.symbols.layout);
  const runLoop = compileLoop(statement, { ...scope, symbols: new Symbols(scope.symbols, layout) });
  const renderLevel = (frame: Frame, value: PythonValue, depth0: number): PythonValue => {
    const loop = new LoopState(filter(frame, value), depth0, (inner) => renderLevel(frame, inner, depth0 + 1));
    const { run } = frame;
    return run.meter.descend(() => run.capture(() => runLoop(new Frame(layout.size, frame, run), loop)));
  };
  return (frame) => {
    const text = renderLevel(frame, iterable(frame), 0);
    frame.run.write(text as Parameters<typeof frame.run.write>[0]);
    return "next";
  };
}

function compileLoop(statement: ForStatement, scope: Scope): RunLoop {
  const body = innerScope(scope, { isInLoop: true });
  const loopSlot = body.symbols.declare("loop").index;
  analyzeTarget(statement.target, body.symbols, true);
  analyzeBody(statement.body, body.symbols);
  const assign = compileTarget(statement.target, body);
  const enter = compileEntry(body);
  const execute = scope.compileBody(statement.body, body);
  const otherwise = compileOtherwise(statement, scope);
  return (frame, loop) => {
    const { run } = frame;
    const outerMessage = run.message;
    let isAnyFinished = false;
    for (let item = loop.next(); item !== undefined; item = loop.next()) {
      run.meter.iteration();
      assign(frame, item);
      frame.slots[loopSlot] = loop;
      enter(frame);
      run.message = item instanceof PythonDict && item.message !== null ? item.message : outerMessage;
      const signal = execute(frame);
      if (signal === "break") break;
      // Jinja counts only iterations that run to their end; after none, the else branch follows.
      if (signal === "next") isAnyFinished = true;
    }
    run.message = outerMessage;
    if (!isAnyFinished) otherwise(frame);
  };
}

function compileOtherwise(statement: ForStatement, scope: Scope): (frame: Frame) => void {
  if (statement.otherwise.length === 0) return () => {};
  const body = innerScope(scope);
  analyzeBody(statement.otherwise, body.symbols);
  const enter = compileEntry(body);
  const execute = scope.compileBody(statement.otherwise, body);
  return (frame) => {
    enter(frame);
    execute(frame);
  };
}

/** `{% for x in items if test %}`: asks item by item, as the loop goes on. */
function compileLoopFilter(
  { target, test }: ForStatement,
  scope: Scope,
): (frame: Frame, items: PythonValue) => PythonValue {
  if (test === null) return (_, items) => items;
  const inner = innerScope(scope);
  analyzeTarget(target, inner.symbols, true);
  analyzeExpression(test, inner.symbols);
  const assign = compileTarget(target, inner);
  const enter = compileEntry(inner);
  const isWanted = compileExpression(test, inner);
  return (frame, items) => {
    const source = iteratorOf(items);
    enter(frame);
    return new PythonIterator(() => {
      for (let item = source.next(); item !== undefined; item = source.next()) {
        frame.run.meter.iteration();
        assign(frame, item);
        if (isTruthy(isWanted(frame))) return item;
      }
      return undefined;
    });
  };
}

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
    const call = (args: CallArguments): PythonValue =>
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

export type Assign = (frame: Frame, value: PythonValue) => void;

export function compileTarget(target: Target, scope: Scope): Assign {
  switch (target.type) {
    case "name": {
      const slot = ownSlot(scope, target.name);
      return (frame, value) => {
        frame.slots[slot] = value;
      };
    }
    case "namespace": {
      const read = compileName(scope, target.name);
      const { attribute } = target;
      return (frame, value) => {
        const namespace = read(frame);
        if (!(namespace instanceof Namespace)) throw notANamespace();
        namespace.attributes.set(attribute, value);
      };
    }
    case "tuple": {
      const items = target.items.map((item) => compileTarget(item, scope));
      return (frame, value) => unpack(items, frame, value);
    }
    default:
      return target satisfies never;
  }
}

/** Asks, before the value is worked out, whether every namespace that a target names is one. */
export function compileTargetCheck(target: Target, scope: Scope): (frame: Frame) => void {
  if (target.type === "name") return () => {};
  if (target.type === "tuple") {
    const checks = target.items.map((item) => compileTargetCheck(item, scope));
    return (frame) => {
      for (const check of checks) check(frame);
    };
  }
  const read = compileName(scope, target.name);
  return (frame) => {
    if (!(read(frame) instanceof Namespace)) throw notANamespace();
  };
}

function unpack(items: readonly Assign[], frame: Frame, value: PythonValue): void {
  const values = itemsOf(value);
  if (values.length !== items.length)
    throw valueError(`${values.length} values are unpacked into ${items.length} names`);
  items.forEach((assign, index) => assign(frame, values[index]!));
}

function notANamespace(): Error {
  return new PythonError("TemplateRuntimeError", "an attribute is assigned to something that is no namespace");
}
