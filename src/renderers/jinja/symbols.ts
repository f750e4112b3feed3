// Which variable a name means, decided once when a template is compiled, by the rules of Jinja's own compiler: a body has its
// own variables, starts with those around it, and what it assigns is gone when it ends. Slots instead of lookups by name.
//
// Following those rules to the letter matters where they surprise: a name that is assigned anywhere in a body is a variable
// of that body from its start, and a name that only branches assign may come from the caller's variables.

import { type PythonValue, Undefined } from "../../python-semantics/index.ts";
import type { ArgumentNodes, Expression, FilterNode, Statement, Target } from "./nodes.ts";
import type { Evaluate, Execute, Frame } from "./run.ts";

/** The variables of one run of the template or of one of its macros, numbered. */
export class Layout {
  readonly parent: Layout | null;
  size = 0;

  constructor(parent: Layout | null) {
    this.parent = parent;
  }
}

export type Slot = { readonly layout: Layout; readonly index: number };

/** What a variable holds when its body begins. */
export type Load =
  | { readonly type: "parameter" }
  /** What the caller of the template gave under this name. */
  | { readonly type: "resolve"; readonly name: string }
  | { readonly type: "alias"; readonly slot: Slot }
  | { readonly type: "undefined" };

export class Symbols {
  readonly parent: Symbols | null;
  readonly layout: Layout;
  /** Shared between the copies for branches: one slot for one name of a body. */
  readonly #slots: Map<string, Slot>;
  readonly #names: Map<string, Slot>;
  readonly #loads: Map<Slot, Load>;
  readonly #stores: Set<string>;

  constructor(parent: Symbols | null, layout: Layout, copied: Symbols | null = null) {
    this.parent = parent;
    this.layout = layout;
    this.#slots = copied === null ? new Map<string, Slot>() : copied.#slots;
    this.#names = new Map(copied === null ? [] : copied.#names);
    this.#loads = new Map(copied === null ? [] : copied.#loads);
    this.#stores = new Set(copied === null ? [] : copied.#stores);
  }

  /** What each variable of this body starts with. */
  get loads(): ReadonlyMap<Slot, Load> {
    return this.#loads;
  }

  find(name: string): Slot | null {
    return this.#names.get(name) ?? this.parent?.find(name) ?? null;
  }

  load(name: string): void {
    if (this.find(name) === null) this.#define(name, { type: "resolve", name });
  }

  store(name: string): void {
    this.#stores.add(name);
    if (this.#names.has(name)) return;
    const outer = this.parent?.find(name) ?? null;
    this.#define(name, outer === null ? { type: "undefined" } : { type: "alias", slot: outer });
  }

  declare(name: string): Slot {
    this.#stores.add(name);
    return this.#define(name, { type: "parameter" });
  }

  copy(): Symbols {
    return new Symbols(this.parent, this.layout, this);
  }

  /** Takes over what branches did. What only they assigned starts with what lies around. */
  merge(branches: readonly Symbols[]): void {
    const assigned = new Set(
      branches.flatMap((branch) => [...branch.#stores]).filter((name) => !this.#stores.has(name)),
    );
    for (const branch of branches) {
      for (const [name, slot] of branch.#names) this.#names.set(name, slot);
      for (const [slot, load] of branch.#loads) this.#loads.set(slot, load);
      for (const name of branch.#stores) this.#stores.add(name);
    }
    for (const name of assigned) {
      const outer = this.parent?.find(name) ?? null;
      const load: Load = outer === null ? { type: "resolve", name } : { type: "alias", slot: outer };
      this.#loads.set(this.#names.get(name)!, load);
    }
  }

  #define(name: string, load: Load): Slot {
    let slot = this.#slots.get(name);
    if (slot === undefined) {
      slot = { layout: this.layout, index: this.layout.size++ };
      this.#slots.set(name, slot);
    }
    this.#names.set(name, slot);
    this.#loads.set(slot, load);
    return slot;
  }
}

export function analyzeBody(statements: readonly Statement[], symbols: Symbols): void {
  for (const statement of statements) analyzeStatement(statement, symbols);
}

function analyzeStatement(statement: Statement, symbols: Symbols): void {
  const read = (expression: Expression): void => analyzeExpression(expression, symbols);
  switch (statement.type) {
    case "output":
      return read(statement.expression);
    case "if": {
      read(statement.test);
      const branches = [statement.body, statement.otherwise].map((body) => {
        const branch = symbols.copy();
        analyzeBody(body, branch);
        return branch;
      });
      return symbols.merge(branches);
    }
    case "for":
      return read(statement.iterable);
    case "set":
      read(statement.value);
      return analyzeTarget(statement.target, symbols);
    case "set-block":
      return analyzeTarget(statement.target, symbols);
    case "macro":
      return symbols.store(statement.name);
    case "call-block":
      if (statement.call === null) return undefined;
      read(statement.call.callee);
      return analyzeArguments(statement.call.args, symbols);
    case "filter-block":
      return analyzeFilters(statement.filters, symbols);
    case "with":
      return statement.values.forEach(read);
    case "break":
    case "continue":
      return undefined;
    default:
      return statement satisfies never;
  }
}

/** Targets of a loop are parameters of its body; other targets are assigned. */
export function analyzeTarget(target: Target, symbols: Symbols, isParameter = false): void {
  switch (target.type) {
    case "name":
      if (isParameter) symbols.declare(target.name);
      else symbols.store(target.name);
      return;
    case "namespace":
      return symbols.load(target.name);
    case "tuple":
      for (const item of target.items) analyzeTarget(item, symbols, isParameter);
      return;
    default:
      target satisfies never;
  }
}

export function analyzeFilters(filters: readonly FilterNode[], symbols: Symbols): void {
  for (const { args } of filters) analyzeArguments(args, symbols);
}

export function analyzeExpression(expression: Expression, symbols: Symbols): void {
  for (const name of namesIn(expression)) symbols.load(name);
}

function analyzeArguments(args: ArgumentNodes, symbols: Symbols): void {
  for (const name of namesInArguments(args)) symbols.load(name);
}

/** Every variable that an expression reads. */
export function* namesIn(expression: Expression): Iterable<string> {
  if (expression.type === "name") yield expression.name;
  for (const part of partsOf(expression)) yield* namesIn(part);
}

export function* namesInArguments(args: ArgumentNodes): Iterable<string> {
  for (const part of argumentParts(args)) yield* namesIn(part);
}

function argumentParts({ positional, named, spread, namedSpread }: ArgumentNodes): Expression[] {
  const spreads = [spread, namedSpread].filter((part) => part !== null);
  return [...positional, ...named.map(({ value }) => value), ...spreads];
}

function partsOf(expression: Expression): readonly Expression[] {
  switch (expression.type) {
    case "constant":
    case "name":
      return [];
    case "attribute":
      return [expression.object];
    case "item":
      return [expression.object, expression.key];
    case "slice":
      return [expression.object, expression.start, expression.stop, expression.step].filter((part) => part !== null);
    case "call":
      return [expression.callee, ...argumentParts(expression.args)];
    case "filter":
      return [expression.operand, ...argumentParts(expression.filter.args)];
    case "test":
      return [expression.operand, ...argumentParts(expression.args)];
    case "list":
    case "tuple":
      return expression.items;
    case "dict":
      return expression.entries.flatMap(({ key, value }) => [key, value]);
    case "not":
    case "sign":
      return [expression.operand];
    case "arithmetic":
    case "logic":
      return [expression.left, expression.right];
    case "concat":
      return expression.parts;
    case "compare":
      return [expression.first, ...expression.rest.map(({ operand }) => operand)];
    case "conditional":
      return [expression.test, expression.whenTrue, expression.whenFalse].filter((part) => part !== null);
    default:
      return expression satisfies never;
  }
}

export function usesName(statements: readonly Statement[], name: string): boolean {
  return statements.some((statement) => {
    for (const used of namesOf(statement)) if (used === name) return true;
    return bodiesOf(statement).some((body) => usesName(body, name));
  });
}

function* namesOf(statement: Statement): Iterable<string> {
  for (const expression of expressionsOf(statement)) yield* namesIn(expression);
  for (const { args } of filtersOf(statement)) yield* namesInArguments(args);
}

function expressionsOf(statement: Statement): readonly Expression[] {
  switch (statement.type) {
    case "output":
      return [statement.expression];
    case "if":
      return [statement.test];
    case "for":
      return statement.test === null ? [statement.iterable] : [statement.iterable, statement.test];
    case "set":
      return [statement.value];
    case "with":
      return statement.values;
    case "macro":
      return statement.parameters.map((parameter) => parameter.default).filter((value) => value !== null);
    case "call-block":
      return statement.call === null ? [] : [{ type: "call", ...statement.call }];
    default:
      return [];
  }
}

function filtersOf(statement: Statement): readonly FilterNode[] {
  return statement.type === "set-block" || statement.type === "filter-block" ? statement.filters : [];
}

function bodiesOf(statement: Statement): readonly (readonly Statement[])[] {
  switch (statement.type) {
    case "if":
    case "for":
      return [statement.body, statement.otherwise];
    case "set-block":
    case "filter-block":
    case "with":
    case "macro":
    case "call-block":
      return [statement.body];
    default:
      return [];
  }
}

export type Scope = {
  readonly symbols: Symbols;
  /** In a branch of an `if` an unknown filter is an error only when it is reached. */
  readonly isSoft: boolean;
  readonly isInLoop: boolean;
  /** Compiles statements that stand directly in a scope. */
  readonly compileBody: (statements: readonly Statement[], scope: Scope) => Execute;
};

/** A body with variables of its own, within the same run of the template or macro. */
export function innerScope(scope: Scope, changes: Partial<Pick<Scope, "isInLoop">> = {}): Scope {
  return { ...scope, isSoft: false, symbols: new Symbols(scope.symbols, scope.symbols.layout), ...changes };
}

/** Sets the variables of a body to what they start with. */
export function compileEntry({ symbols }: Scope): (frame: Frame) => void {
  const entries: ((frame: Frame) => void)[] = [];
  for (const [{ index }, load] of symbols.loads) {
    if (load.type === "resolve") {
      const { name } = load;
      entries.push((frame) => (frame.slots[index] = frame.run.variables.get(name)));
    } else if (load.type === "alias") {
      const read = compileSlot(symbols, load.slot);
      entries.push((frame) => (frame.slots[index] = read(frame)));
    } else if (load.type === "undefined") {
      entries.push((frame) => (frame.slots[index] = undefined));
    }
  }
  return (frame) => {
    for (const enter of entries) enter(frame);
  };
}

/** Reads a variable by name; one that is not set is undefined, and says its name when it is used. */
export function compileName(scope: Scope, name: string): Evaluate {
  const missing = new Undefined(`"${name}" is undefined`);
  const read = compileSlot(scope.symbols, slotOf(scope, name));
  return (frame) => {
    const value = read(frame);
    return value === undefined ? missing : value;
  };
}

/** A variable of the body itself, for assigning to. */
export function ownSlot(scope: Scope, name: string): number {
  return slotOf(scope, name).index;
}

/** `undefined` where it is not set. */
export function compileSlot(symbols: Symbols, slot: Slot): (frame: Frame) => PythonValue | undefined {
  const { index } = slot;
  let depth = 0;
  for (let { layout } = symbols; layout !== slot.layout; layout = layout.parent!) depth++;
  if (depth === 0) return (frame) => frame.slots[index];
  return (frame) => {
    let at = frame;
    for (let hops = depth; hops > 0; hops--) at = at.parent!;
    return at.slots[index];
  };
}

function slotOf(scope: Scope, name: string): Slot {
  const slot = scope.symbols.find(name);
  if (slot !== null) return slot;
  throw new Error(`The name "${name}" was not analyzed before it was compiled.`);
}
