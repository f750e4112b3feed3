// Python's operators and built-in functions on values: `==`, `<`, `in`, `iter`, `+`, `[a:b]`.

import { calculateComplex, PythonComplex } from "./complex.ts";
import { PythonError, typeError, valueError } from "./errors.ts";
import { formatPercent } from "./format.ts";
import { JsonFloat, pythonTypeName, numberOf } from "./json/value.ts";
import { checkItems, checkTextLength, spend } from "./limits.ts";
import {
  type BinaryOperator,
  calculateNumbers,
  complexOf,
  type IntegerBudget,
  pythonNegate,
  scalarOf,
  unsupportedOperands,
} from "./numbers.ts";
import { compareCodePoints, unitOffset } from "./strings.ts";
import { concatStrings, escapeText, repeatText, TracedText } from "./traced-text.ts";
import {
  DictView,
  hashKey,
  isDict,
  isList,
  lengthIn,
  PythonDict,
  PythonIterator,
  PythonList,
  PythonObject,
  PythonOpaque,
  PythonRange,
  PythonTuple,
  type PythonValue,
  textIn,
  Undefined,
} from "./values.ts";

/**
 * `left == right`: deep, `1 == 1.0 == True`, dicts independent of order, and never an error. NaN
 * equals nothing, but a container equals itself and any container with the same NaN object.
 */
export function pythonEquals(left: PythonValue, right: PythonValue): boolean {
  if (left === null || right === null) return left === right;
  if (typeof left === "string" || left instanceof TracedText) return textIn(left) === textIn(right);
  const a = scalarOf(left);
  const b = scalarOf(right);
  // oxlint-disable-next-line eqeqeq -- number, bigint: JavaScript's loose equality is exact across the two, as Python's is.
  if (a !== null || b !== null) return a !== null && b !== null && a == b;
  if (left === right) return true;
  spend(1);
  const items = listIn(left);
  if (items !== null) return sameItems(items, listIn(right));
  if (isDict(left)) return isDict(right) && sameEntries(left, right);
  if (left instanceof PythonTuple) return right instanceof PythonTuple && sameItems(left.items(), right.items());
  if (left instanceof PythonRange) return right instanceof PythonRange && sameItems(left.items(), right.items());
  if (left instanceof PythonOpaque) return right instanceof PythonOpaque && left.repr() === right.repr();
  return left instanceof Undefined && right instanceof Undefined;
}

/**
 * Identity of objects. Strings and large integers have no identity here: equal ones count as the
 * same.
 */
export function isSame(left: PythonValue, right: PythonValue): boolean {
  return left === right || (left instanceof TracedText && right instanceof TracedText && left.text === right.text);
}

/** The comparison of `in`, `list.count` and `list.index`: the same object, or an equal one. */
export function isOrEquals(left: PythonValue, right: PythonValue): boolean {
  return left === right || pythonEquals(left, right);
}

function listIn(value: PythonValue): readonly PythonValue[] | null {
  if (isList(value)) return value;
  return value instanceof PythonList ? value.items() : null;
}

function sameItems(left: readonly PythonValue[], right: readonly PythonValue[] | null): boolean {
  if (right === null || left.length !== right.length) return false;
  return left === right || left.every((item, index) => isOrEquals(item, right[index]!));
}

type Dict = PythonDict | ReadonlyMap<string, PythonValue>;

function sameEntries(left: Dict, right: Dict): boolean {
  if (lengthIn(left) !== lengthIn(right)) return false;
  if (left instanceof PythonDict || right instanceof PythonDict) {
    const other = asDict(right).entries;
    for (const [hash, { value }] of asDict(left).entries) {
      const entry = other.get(hash);
      if (entry === undefined || !isOrEquals(value, entry.value)) return false;
    }
    return true;
  }
  for (const [key, value] of left) {
    const other = right.get(key);
    if (other === undefined || !isOrEquals(value, other)) return false;
  }
  return true;
}

function asDict(value: Dict): PythonDict {
  return value instanceof PythonDict ? value : PythonDict.named(value);
}

export type OrderOperator = "<" | "<=" | ">" | ">=";

/**
 * Compares numbers exactly, text by code point, lists and tuples item by item; a "TypeError" for
 * other types and mixed ones.
 */
export function isOrdered(operator: OrderOperator, left: PythonValue, right: PythonValue): boolean {
  spend(1);
  const [a, b] = [scalarOf(left), scalarOf(right)];
  if (a !== null && b !== null) return holds(operator, a, b);
  const [text, other] = [textIn(left), textIn(right)];
  if (text !== null && other !== null) return holds(operator, compareCodePoints(text, other), 0);
  const areTuples = left instanceof PythonTuple && right instanceof PythonTuple;
  const [items, others] = areTuples ? [left.items(), right.items()] : [listIn(left), listIn(right)];
  if (items !== null && others !== null) {
    const at = items.findIndex((item, index) => index >= others.length || !isOrEquals(item, others[index]!));
    if (at === -1 || at >= others.length) return holds(operator, items.length, others.length);
    return isOrdered(operator, items[at]!, others[at]!);
  }
  requireDefined(left, right);
  const names = `'${pythonTypeName(left)}' and '${pythonTypeName(right)}'`;
  throw typeError(`'${operator}' not supported between instances of ${names}`);
}

function holds(operator: OrderOperator, left: number | bigint, right: number | bigint): boolean {
  if (operator === "<") return left < right;
  if (operator === "<=") return left <= right;
  return operator === ">" ? left > right : left >= right;
}

/** `left < right`. */
export function pythonLess(left: PythonValue, right: PythonValue): boolean {
  return isOrdered("<", left, right);
}

/** Comparison for sorting: negative, zero or positive. It uses only `<`, like Python's sort. */
export function compareValues(left: PythonValue, right: PythonValue): number {
  return pythonLess(left, right) ? -1 : pythonLess(right, left) ? 1 : 0;
}

function requireDefined(...values: readonly PythonValue[]): void {
  for (const value of values) if (value instanceof Undefined) throw value.error;
}

/**
 * The items of any value that has a length; `null` for iterators and for values that are not
 * iterable.
 */
export function sizedItems(value: PythonValue): readonly PythonValue[] | null {
  if (value instanceof TracedText) return characters(value);
  return value instanceof PythonObject && value.length !== null ? value.items() : null;
}

/** All items; an iterator is exhausted. Throws a "TypeError" for values that are not iterable. */
export function itemsOf(value: PythonValue): readonly PythonValue[] {
  const sized = sizedItems(value);
  if (sized !== null) return sized;
  const iterator = iteratorOf(value);
  const items: PythonValue[] = [];
  for (let item = iterator.next(); item !== undefined; item = iterator.next()) items.push(item);
  return items;
}

/** An iterator over the items; an iterator is returned unchanged. */
export function iteratorOf(value: PythonValue): PythonIterator {
  if (value instanceof PythonIterator) return value;
  const sized = sizedItems(value);
  if (sized === null) throw typeError(`'${pythonTypeName(value)}' object is not iterable`);
  return PythonIterator.over(sized);
}

export function isIterable(value: PythonValue): boolean {
  return value instanceof PythonIterator || lengthIn(value) !== null;
}

/** `len(value)`. */
export function lengthOf(value: PythonValue): number {
  const length = lengthIn(value);
  if (length === null) throw typeError(`object of type '${pythonTypeName(value)}' has no len()`);
  return length;
}

function characters(value: TracedText): TracedText[] {
  let offset = 0;
  const plain = value.asMarkup(false);
  return Array.from(value.text, (character) => plain.slice(offset, (offset += character.length)));
}

/** `bool(value)`. */
export function isTruthy(value: PythonValue): boolean {
  if (value === null || typeof value !== "object") return Boolean(value);
  if (value instanceof TracedText) return value.text !== "";
  return value instanceof JsonFloat ? value.value !== 0 : lengthIn(value) !== 0;
}

/** `item in container`. */
export function contains(container: PythonValue, item: PythonValue): boolean {
  if (container instanceof TracedText) {
    if (item instanceof TracedText) return container.text.includes(item.text);
    throw typeError(`'in <string>' requires string as left operand, not ${pythonTypeName(item)}`);
  }
  if (container instanceof PythonDict) return container.entries.has(hashKey(item));
  if (container instanceof DictView && container.kind === "keys") return container.dict.entries.has(hashKey(item));
  return itemsOf(container).some((candidate) => isSame(candidate, item) || pythonEquals(candidate, item));
}

/** Throws Python's error for values that the operator does not support. */
export function calculate(
  operator: BinaryOperator,
  left: PythonValue,
  right: PythonValue,
  budget?: IntegerBudget,
): PythonValue {
  if (left instanceof TracedText && operator === "%") return formatPercent(left, right);
  requireDefined(left, right);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== null && b !== null) return calculateNumbers(operator, [a, b], budget);
  let result: PythonValue | null = null;
  if (left instanceof PythonComplex || right instanceof PythonComplex) {
    const [c, d] = [complexOf(left), complexOf(right)];
    if (c !== null && d !== null) result = calculateComplex(operator, c, d);
  } else if (operator === "+") {
    result = concatenate(left, right);
  } else if (operator === "*") {
    result = repeat(left, right);
  }
  if (result === null) throw unsupportedOperands(operator, left, right);
  return result;
}

/** `+value` or `-value`. */
export function applySign(operator: "+" | "-", value: PythonValue): PythonValue {
  requireDefined(value);
  if (value instanceof PythonComplex) {
    return operator === "+" ? value : new PythonComplex(-value.real, -value.imaginary);
  }
  const number = numberOf(value);
  if (number === null) throw typeError(`bad operand type for unary ${operator}: '${pythonTypeName(value)}'`);
  return operator === "-" ? pythonNegate(number) : number;
}

function isSequence(value: PythonValue): value is TracedText | PythonList | PythonTuple {
  return value instanceof TracedText || value instanceof PythonList || value instanceof PythonTuple;
}

function concatenate(left: PythonValue, right: PythonValue): PythonValue | null {
  if (!isSequence(left)) return null;
  if (left instanceof TracedText && right instanceof TracedText) {
    checkTextLength(left.text.length + right.text.length);
    if (!left.isMarkup && !right.isMarkup) return concatStrings([left, right]);
    // Markup escapes the other operand.
    return concatStrings([escapeText(left), escapeText(right)]).asMarkup(true);
  }
  const areLists = left instanceof PythonList && right instanceof PythonList;
  if (areLists || (left instanceof PythonTuple && right instanceof PythonTuple)) {
    checkItems(left.length + right.length);
    const items = [...left.items(), ...right.items()];
    return areLists ? PythonList.of(items) : new PythonTuple(items);
  }
  const name = left.typeName;
  throw typeError(`can only concatenate ${name} (not "${pythonTypeName(right)}") to ${name}`);
}

function repeat(left: PythonValue, right: PythonValue): PythonValue | null {
  const [sequence, times] = isSequence(left) ? [left, right] : [right, left];
  if (!isSequence(sequence)) return null;
  const number = numberOf(times);
  if (typeof number !== "number" && typeof number !== "bigint") {
    throw typeError(`can't multiply sequence by non-int of type '${pythonTypeName(times)}'`);
  }
  if (BigInt.asIntN(64, BigInt(number)) !== BigInt(number)) {
    throw new PythonError("OverflowError", "cannot fit 'int' into an index-sized integer");
  }
  const count = Math.max(0, Number(number));
  if (sequence instanceof TracedText) {
    checkTextLength(sequence.text.length * count);
    return repeatText(sequence, count);
  }
  checkItems(sequence.length * count);
  const items = sequence.length === 0 ? [] : Array.from({ length: count }, () => sequence.items()).flat();
  return sequence instanceof PythonList ? PythonList.of(items) : new PythonTuple(items);
}

/**
 * An argument used as an index: an int or bool. Huge ones are clipped, which makes no difference
 * for any text or list.
 */
export function expectIndex(value: PythonValue): number {
  if (typeof value === "boolean" || typeof value === "number") return Number(value);
  if (typeof value === "bigint") return value > 0n ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER;
  throw typeError(`'${pythonTypeName(value)}' object cannot be interpreted as an integer`);
}

/** `object[index]` of a sequence; `undefined` if Python raises TypeError or LookupError. */
export function itemAt(object: PythonValue, key: PythonValue): PythonValue | undefined {
  if (typeof key !== "boolean" && typeof key !== "number") return undefined;
  if (!isSequence(object) && !(object instanceof PythonRange)) return undefined;
  const length = lengthOf(object);
  const place = Number(key) < 0 ? Number(key) + length : Number(key);
  if (place < 0 || place >= length) return undefined;
  if (object instanceof TracedText) {
    const start = unitOffset(object.text, place);
    return object.slice(start, start + (object.text.codePointAt(start)! > 0xffff ? 2 : 1));
  }
  return object instanceof PythonRange ? object.at(place) : object.items()[place];
}

type Slice = { readonly start: PythonValue; readonly stop: PythonValue; readonly step: PythonValue };
type Bounds = { readonly start: number; readonly stop: number; readonly step: number };

/**
 * `object[start:stop:step]`; None counts as omitted. Throws a "TypeError" or, for a step of zero, a
 * "ValueError".
 */
export function sliceValue(object: PythonValue, slice: Slice): PythonValue {
  requireDefined(object);
  if (!isSequence(object) && !(object instanceof PythonRange)) {
    throw typeError(`'${pythonTypeName(object)}' object is not subscriptable`);
  }
  const bounds = resolveSlice(slice, lengthOf(object));
  const { start, stop, step } = bounds;
  if (object instanceof TracedText) return sliceText(object, bounds);
  if (object instanceof PythonRange) return new PythonRange(object.at(start), object.at(stop), object.step * step);
  const items = step === 1 ? object.items().slice(start, Math.max(start, stop)) : pick(object.items(), bounds);
  return object instanceof PythonList ? PythonList.of(items) : new PythonTuple(items);
}

/** Positions within the sequence, like Python's `slice.indices`. */
function resolveSlice(slice: Slice, length: number): Bounds {
  const [start, stop, step] = [slice.start, slice.stop, slice.step].map((bound) =>
    bound === null ? null : expectIndex(bound),
  ) as [number | null, number | null, number | null];
  if (step === 0) throw valueError("slice step cannot be zero");
  const isForward = step === null || step > 0;
  const [lowest, highest] = isForward ? [0, length] : [-1, length - 1];
  const place = (bound: number | null, otherwise: number): number =>
    bound === null ? otherwise : Math.min(highest, Math.max(lowest, bound < 0 ? bound + length : bound));
  return {
    start: place(start, isForward ? lowest : highest),
    stop: place(stop, isForward ? highest : lowest),
    step: step ?? 1,
  };
}

function pick<T>(items: readonly T[], { start, stop, step }: Bounds): T[] {
  const picked: T[] = [];
  for (let at = start; step > 0 ? at < stop : at > stop; at += step) picked.push(items[at]!);
  return picked;
}

function sliceText(text: TracedText, bounds: Bounds): TracedText {
  const { start, stop, step } = bounds;
  if (step === 1) return text.slice(unitOffset(text.text, start), unitOffset(text.text, Math.max(start, stop)));
  return concatStrings(pick(characters(text), bounds)).asMarkup(text.isMarkup);
}
