// `{% for %}`, with its filter, its else branch and its recursive form.

import type { ForStatement } from "../nodes.ts";
import { PythonDict } from "../values/containers.ts";
import { PythonIterator } from "../values/iterables.ts";
import { isTruthy, iteratorOf } from "../values/iteration.ts";
import type { Value } from "../values/value.ts";
import { analyzeBody, analyzeExpression, analyzeTarget } from "./analyze.ts";
import { compileExpression } from "./compile-expression.ts";
import { compileTarget } from "./compile-target.ts";
import { LoopState } from "./loop-state.ts";
import { type Execute, Frame } from "./run.ts";
import { compileEntry, innerScope, type Scope } from "./scope.ts";
import { Layout, Symbols } from "./symbols.ts";

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
  const renderLevel = (frame: Frame, value: Value, depth0: number): Value => {
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
function compileLoopFilter({ target, test }: ForStatement, scope: Scope): (frame: Frame, items: Value) => Value {
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
