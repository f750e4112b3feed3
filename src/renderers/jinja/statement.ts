// Statements, one function each: the variables it reads and assigns, and its effect, once it is
// known which variables its names mean.

import {
  Callable,
  type CallArguments,
  isTruthy,
  iteratorOf,
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
} from "../../python-semantics/index.ts";
import { finish, type Steps } from "../../lib/steps.ts";
import { constant, type Expression, type FilterUse, namesIn, type Reading } from "./expression.ts";
import { syntaxError } from "./lexer.ts";
import { callValue } from "./lookup.ts";
import { LoopState } from "./loop-state.ts";
import { type Evaluate, type Execute, Frame, type Signal } from "./run.ts";
import { Layout, nameTarget, type Scope, Symbols, type Target } from "./scope.ts";

/** A statement; `parts` holds all its reads, those in its bodies included. */
export type Statement = Reading & {
  /** Records its reads and assignments in the body that contains it. */
  readonly analyze: (symbols: Symbols) => void;
  readonly compile: (scope: Scope) => Execute;
};

type Body = readonly Statement[];

export function compileBody(statements: Body, scope: Scope): Execute {
  const compiled = statements.map((statement) => statement.compile(scope));
  const [only] = compiled;
  if (only !== undefined && compiled.length === 1) return only;
  const atOnce = (frame: Frame): Signal => {
    for (const execute of compiled) {
      const signal = execute(frame);
      if (signal !== "next") return signal;
    }
    return "next";
  };
  if (compiled.every(({ steps }) => steps === undefined)) return atOnce;
  return Object.assign(atOnce, {
    *steps(frame: Frame): Steps<Signal> {
      for (const execute of compiled) {
        const signal = execute.steps === undefined ? execute(frame) : yield* execute.steps(frame);
        if (signal !== "next") return signal;
      }
      return "next";
    },
  });
}

export function analyzeBody(statements: Body, symbols: Symbols): void {
  for (const statement of statements) statement.analyze(symbols);
}

/** Wraps a function as a statement that ends normally. */
function plainly(run: (frame: Frame) => void): Execute {
  return (frame) => {
    run(frame);
    return "next";
  };
}

type InnerParts = {
  /** Variables that the body is given. */
  readonly targets?: readonly Target[];
  readonly body?: Body;
  /** Expressions that are read in addition to the body. */
  readonly reads?: readonly Reading[];
  readonly isInLoop?: boolean;
  /** Layout of a macro, which has frames of its own. */
  readonly layout?: Layout;
};

type Inner = {
  readonly scope: Scope;
  /** Sets the variables to their initial values. */
  readonly enter: (frame: Frame) => void;
  /** Aligned with the targets. */
  readonly assigns: readonly ((frame: Frame, value: PythonValue) => void)[];
  readonly execute: Execute;
};

/** A body with variables of its own. */
function compileInner(outer: Scope, { targets = [], body = [], reads = [], ...options }: InnerParts): Inner {
  const { isInLoop = outer.isInLoop, layout = outer.symbols.layout } = options;
  const symbols = new Symbols(outer.symbols, layout);
  const scope: Scope = { symbols, isSoft: false, isInLoop };
  for (const target of targets) target.analyze(symbols, true);
  analyzeBody(body, symbols);
  symbols.load(namesIn(reads));
  const enter = symbols.compileEntry();
  const assigns = targets.map((target) => target.compile(scope));
  return { scope, enter, assigns, execute: compileBody(body, scope) };
}

type StatementParts = {
  /** Expressions that are read in the body around the statement. */
  readonly reads?: readonly Reading[];
  /** Target that is assigned in that body, after the reads. */
  readonly target?: Target;
  /** Expressions that are read only within, in bodies with variables of their own. */
  readonly within?: readonly Reading[];
  readonly compile: Statement["compile"];
};

function makeStatement({ reads = [], target, within = [], compile }: StatementParts): Statement {
  return {
    name: null,
    parts: [...reads, ...within],
    analyze: (symbols) => {
      symbols.load(namesIn(reads));
      target?.analyze(symbols, false);
    },
    compile,
  };
}

export function output(expression: Expression): Statement {
  return makeStatement({
    reads: [expression],
    compile: (scope) => {
      const evaluate = expression.compile(scope);
      return plainly((frame) => frame.run.write(textOf(evaluate(frame))));
    },
  });
}

export function ifStatement(test: Expression, body: Body, otherwise: Body): Statement {
  return {
    name: null,
    parts: [test, ...body, ...otherwise],
    analyze: (symbols) => {
      symbols.load(namesIn([test]));
      symbols.branch([body, otherwise].map((branch) => (copy) => analyzeBody(branch, copy)));
    },
    compile: (scope) => {
      const soft: Scope = { ...scope, isSoft: true };
      const isTrue = test.compile(soft);
      const [yes, no] = [compileBody(body, soft), compileBody(otherwise, soft)];
      const atOnce = (frame: Frame): Signal => (isTruthy(isTrue(frame)) ? yes(frame) : no(frame));
      if (yes.steps === undefined && no.steps === undefined) return atOnce;
      return Object.assign(atOnce, {
        *steps(frame: Frame): Steps<Signal> {
          const chosen = isTruthy(isTrue(frame)) ? yes : no;
          return chosen.steps === undefined ? chosen(frame) : yield* chosen.steps(frame);
        },
      });
    },
  };
}

export function setStatement(target: Target, value: Expression): Statement {
  return makeStatement({ reads: [value], target, compile: (scope) => compileSet(target, value.compile(scope), scope) });
}

function compileSet(target: Target, value: Evaluate, scope: Scope): Execute {
  const [check, assign] = [target.compileCheck(scope), target.compile(scope)];
  return plainly((frame) => {
    check(frame);
    assign(frame, value(frame));
  });
}

/** Compiles a body and its filters to a value: the text that the body writes, filtered. */
function compileCaptured(filters: readonly FilterUse[], body: Body, outer: Scope): Evaluate {
  const { scope, enter, execute } = compileInner(outer, { body, reads: filters, isInLoop: false });
  const capture = (frame: Frame): TracedText => {
    enter(frame);
    return frame.run.capture(() => execute(frame));
  };
  return filters.reduce<Evaluate>((operand, filter) => filter.compile(operand, scope), capture);
}

export function setBlock(target: Target, filters: readonly FilterUse[], body: Body): Statement {
  return makeStatement({
    target,
    within: [...filters, ...body],
    compile: (scope) => compileSet(target, compileCaptured(filters, body, scope), scope),
  });
}

export function filterBlock(filters: readonly FilterUse[], body: Body): Statement {
  return makeStatement({
    reads: filters,
    within: body,
    compile: (scope) => {
      const captured = compileCaptured(filters, body, scope);
      return plainly((frame) => frame.run.write(textOf(captured(frame))));
    },
  });
}

type Assignment = { readonly target: Target; readonly value: Expression };

export function withStatement(assignments: readonly Assignment[], body: Body): Statement {
  const values = assignments.map(({ value }) => value);
  return makeStatement({
    reads: values,
    within: body,
    compile: (scope) => {
      const given = values.map((value) => value.compile(scope));
      const { enter, assigns, execute } = compileInner(scope, {
        targets: assignments.map(({ target }) => target),
        body,
      });
      return (frame) => {
        const assigned = given.map((value) => value(frame));
        enter(frame);
        assigns.forEach((assign, index) => assign(frame, assigned[index]!));
        return execute(frame);
      };
    },
  });
}

type ForParts = {
  readonly target: Target;
  readonly iterable: Expression;
  readonly test: Expression | null;
  readonly body: Body;
  readonly otherwise: Body;
  readonly isRecursive: boolean;
};

export function forStatement(parts: ForParts): Statement {
  const { iterable, test, body, otherwise, isRecursive } = parts;
  return makeStatement({
    reads: [iterable],
    within: [...(test === null ? [] : [test]), ...body, ...otherwise],
    compile: (scope) => {
      const items = iterable.compile(scope);
      const filter = compileLoopFilter(parts, scope);
      if (isRecursive) return compileRecursive(parts, scope, items, filter);
      const runLoop = compileLoop(parts, scope);
      function* steps(frame: Frame, inSteps = true): Steps<Signal> {
        yield* runLoop(frame, new LoopState(filter(frame, items(frame))), inSteps);
        return "next";
      }
      return Object.assign((frame: Frame) => finish(steps(frame, false)), { steps });
    },
  });
}

type LoopFilter = (frame: Frame, items: PythonValue) => PythonValue;

/** A recursive loop runs within itself, so its variables need a frame for each level. */
function compileRecursive(parts: ForParts, scope: Scope, items: Evaluate, filter: LoopFilter): Execute {
  const layout = new Layout(scope.symbols.layout);
  const runLoop = compileLoop(parts, { ...scope, symbols: new Symbols(scope.symbols, layout) });
  const renderLevel = (frame: Frame, value: PythonValue, depth0: number): TracedText => {
    const loop = new LoopState(filter(frame, value), depth0, (inner) => renderLevel(frame, inner, depth0 + 1));
    const { run } = frame;
    return run.descend(() => run.capture(() => finish(runLoop(new Frame(layout.size, frame, run), loop, false))));
  };
  return plainly((frame) => frame.run.write(renderLevel(frame, items(frame), 0)));
}

/** One step for each iteration, or one for all; loops within it have steps of their own. */
function compileLoop(
  { target, body, otherwise }: ForParts,
  scope: Scope,
): (frame: Frame, loop: LoopState, inSteps: boolean) => Steps<void> {
  const inner = compileInner(scope, { targets: [nameTarget("loop"), target], body, isInLoop: true });
  const { enter, execute } = inner;
  const [assignLoop, assign] = inner.assigns;
  const afterwards = compileInner(scope, { body: otherwise });
  return function* (frame, loop, inSteps) {
    const { run } = frame;
    const outerMessage = run.message;
    let isAnyFinished = false;
    for (let item = loop.next(); item !== undefined; item = loop.next()) {
      run.iteration();
      assign!(frame, item);
      assignLoop!(frame, loop);
      enter(frame);
      run.message = item instanceof PythonDict && item.message !== null ? item.message : outerMessage;
      const signal = inSteps && execute.steps !== undefined ? yield* execute.steps(frame) : execute(frame);
      if (signal === "break") break;
      // Jinja counts only iterations that run to their end; if there is none, the else branch
      // follows.
      if (signal === "next") isAnyFinished = true;
      if (inSteps) yield;
    }
    run.message = outerMessage;
    if (isAnyFinished) return;
    afterwards.enter(frame);
    afterwards.execute(frame);
  };
}

/** `{% for x in items if test %}`: tests item by item, as the loop advances. */
function compileLoopFilter({ target, test }: ForParts, scope: Scope): LoopFilter {
  if (test === null) return (_, items) => items;
  const inner = compileInner(scope, { targets: [target], reads: [test] });
  const isChosen = test.compile(inner.scope);
  return (frame, items) => {
    const source = iteratorOf(items);
    inner.enter(frame);
    return new PythonIterator(() => {
      for (let item = source.next(); item !== undefined; item = source.next()) {
        frame.run.iteration();
        inner.assigns[0]!(frame, item);
        if (isTruthy(isChosen(frame))) return item;
      }
      return undefined;
    });
  };
}

export type Parameter = { readonly name: string; readonly default: Expression | null };
type FunctionParts = { readonly name: string; readonly parameters: readonly Parameter[]; readonly body: Body };

const defaultsOf = ({ parameters }: FunctionParts): Expression[] => parameters.flatMap((own) => own.default ?? []);

export function macroStatement(parts: FunctionParts): Statement {
  const target = nameTarget(parts.name);
  return makeStatement({
    target,
    within: [...defaultsOf(parts), ...parts.body],
    compile: (scope) => compileSet(target, compileFunction(parts, scope), scope),
  });
}

/** Passes its body to the callee as `caller`. */
export function callBlock(expression: Expression, parts: FunctionParts): Statement {
  const { call } = expression;
  if (call === null) throw syntaxError("a call block calls nothing");
  return makeStatement({
    reads: [expression],
    within: [...defaultsOf(parts), ...parts.body],
    compile: (scope) => {
      const [callee, args] = [call.callee.compile(scope), call.args.compile(scope)];
      const define = compileFunction(parts, scope);
      return plainly((frame) => {
        const caller = define(frame);
        const called = callee(frame);
        const { positional, named } = args(frame);
        frame.run.write(textOf(callValue(called, { positional, named: new Map(named).set("caller", caller) })));
      });
    },
  });
}

/** `{% generation %}` only writes its body. */
export function generation(body: Body): Statement {
  return makeStatement({
    within: body,
    compile: (scope) => {
      const { enter, execute } = compileInner(scope, { body, isInLoop: false });
      return (frame) => {
        enter(frame);
        return execute(frame);
      };
    },
  });
}

export function loopControl(signal: "break" | "continue"): Statement {
  return makeStatement({
    compile: ({ isInLoop }) => {
      if (!isInLoop) throw new PythonError("SyntaxError", `"${signal}" does not stand in the body of a loop`);
      return () => signal;
    },
  });
}

/** Names that a macro is given when its body uses them. */
const specials = ["caller", "kwargs", "varargs"] as const;

/** Makes the macro each time its definition is reached, over the current variables. */
function compileFunction(parts: FunctionParts, outer: Scope): Evaluate {
  const { name, parameters, body } = parts;
  const layout = new Layout(outer.symbols.layout);
  const used = namesIn(body);
  const given = specials.filter((special) => used.has(special) && !parameters.some((own) => own.name === special));
  const targets = [...parameters.map((own) => own.name), ...given].map(nameTarget);
  const inner = compileInner(outer, { targets, body, reads: defaultsOf(parts), isInLoop: false, layout });
  const slotOf = (variable: string): number => inner.scope.symbols.ownSlot(variable);
  const bound = parameters.map((own) => {
    const missing = constant(new Undefined(`the parameter "${own.name}" was not provided`));
    return { name: own.name, slot: slotOf(own.name), otherwise: (own.default ?? missing).compile(inner.scope) };
  });
  const slotIf = (special: (typeof specials)[number]): number | null =>
    given.includes(special) ? slotOf(special) : null;
  const [caller, kwargs, varargs] = [slotIf("caller"), slotIf("kwargs"), slotIf("varargs")];

  const bind = (frame: Frame, { positional, named }: CallArguments): void => {
    const { slots } = frame;
    const rest = new Map(named);
    bound.forEach((own, index) => {
      const isPositional = index < positional.length;
      slots[own.slot] = isPositional ? positional[index] : rest.get(own.name);
      if (!isPositional) rest.delete(own.name);
    });
    if (caller !== null) {
      slots[caller] = rest.get("caller") ?? new Undefined("no caller was given");
      rest.delete("caller");
    }
    if (kwargs !== null) {
      slots[kwargs] = PythonDict.of(Array.from(rest, ([key, value]) => ({ key: templateText(key), value })));
    } else if (rest.size > 0) {
      throw typeError(`the macro "${name}" takes no argument "${[...rest.keys()][0]}"`);
    }
    if (varargs !== null) slots[varargs] = new PythonTuple(positional.slice(bound.length));
    else if (positional.length > bound.length) {
      throw typeError(`the macro "${name}" takes at most ${bound.length} arguments`);
    }
    for (const { slot, otherwise } of bound) if (slots[slot] === undefined) slots[slot] = otherwise(frame);
  };

  return (defined) => {
    const { run } = defined;
    const call = (args: CallArguments): PythonValue =>
      run.descend(() => {
        const frame = new Frame(layout.size, defined, run);
        inner.enter(frame);
        bind(frame, args);
        return run.capture(() => inner.execute(frame));
      });
    return new Callable(name, call, "Macro");
  };
}
