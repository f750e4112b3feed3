// `object[start:stop:step]`.

import { codePointLength, unitOffset } from "../values/code-points.ts";
import { PythonList, PythonTuple } from "../values/containers.ts";
import { PythonRange } from "../values/iterables.ts";
import { lengthOf } from "../values/iteration.ts";
import { typeError, undefinedError, valueError } from "../values/raise.ts";
import { concatTexts, TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Undefined, type Value } from "../values/value.ts";
import { expectIndex } from "./bind-arguments.ts";

export type Slice = { readonly start: Value; readonly stop: Value; readonly step: Value };

/** Throws a "TypeError" for what cannot be sliced or is no bound, and a "ValueError" for a step of zero. */
export function sliceValue(object: Value, slice: Slice): Value {
  if (object instanceof Undefined) throw undefinedError(object);
  const isSequence = object instanceof PythonList || object instanceof PythonTuple || object instanceof PythonRange;
  if (!isSequence && !(object instanceof TracedText)) throw typeError(`a ${typeNameOf(object)} cannot be sliced`);
  const bounds = resolveSlice(slice, lengthOf(object));
  const { start, stop, step } = bounds;
  if (object instanceof TracedText) return sliceText(object, bounds);
  if (object instanceof PythonRange) return new PythonRange(object.at(start), object.at(stop), object.step * step);
  const items = step === 1 ? object.items.slice(start, Math.max(start, stop)) : pick(object.items, bounds);
  return object instanceof PythonList ? PythonList.of(items) : new PythonTuple(items);
}

type Bounds = { readonly start: number; readonly stop: number; readonly step: number };

/** Places within the sequence, as Python's `slice.indices`. */
function resolveSlice(slice: Slice, length: number): Bounds {
  const [start, stop, step] = [boundOf(slice.start), boundOf(slice.stop), boundOf(slice.step)];
  if (step === 0) throw valueError("the step of a slice is zero");
  const isForward = step === null || step > 0;
  const [lowest, highest] = isForward ? [0, length] : [-1, length - 1];
  const place = (bound: number | null, otherwise: number): number => {
    if (bound === null) return otherwise;
    return Math.min(highest, Math.max(lowest, bound < 0 ? bound + length : bound));
  };
  return {
    start: place(start, isForward ? lowest : highest),
    stop: place(stop, isForward ? highest : lowest),
    step: step ?? 1,
  };
}

/** `null` when it is left out. */
function boundOf(value: Value): number | null {
  return value === null ? null : expectIndex(value, "a slice");
}

function pick<T>(items: readonly T[], { start, stop, step }: Bounds): T[] {
  const picked: T[] = [];
  for (let at = start; step > 0 ? at < stop : at > stop; at += step) picked.push(items[at]!);
  return picked;
}

function sliceText(text: TracedText, bounds: Bounds): TracedText {
  const { start, stop, step } = bounds;
  if (step === 1) return text.slice(unitOffset(text.text, start), unitOffset(text.text, Math.max(start, stop)));
  const isPlain = codePointLength(text.text) === text.text.length;
  let offset = 0;
  const characters = isPlain
    ? Array.from({ length: text.text.length }, (_, index) => text.slice(index, index + 1))
    : Array.from(text.text, (character) => text.slice(offset, (offset += character.length)));
  return concatTexts(pick(characters, bounds)).asMarkup(text.isMarkup);
}
