// `object.name` and `object[key]` as the sandboxed environment looks them up: attributes before keys for the dot, keys
// before attributes for the brackets, undefined where there is neither. What would change a list or dict, and what is
// private, is there but hidden: using it raises "security".

import { dictMethods, listMethods, rangeMethods, tupleMethods } from "../methods/container-methods.ts";
import { formatBraces, formatMap } from "../methods/format-braces.ts";
import type { TextMethod } from "../methods/text-method.ts";
import { textMethods } from "../methods/text-methods.ts";
import { unitOffset } from "../values/code-points.ts";
import { GroupTuple, PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { hashKey } from "../values/hash-key.ts";
import { PythonRange } from "../values/iterables.ts";
import { lengthOf } from "../values/iteration.ts";
import { undefinedError } from "../values/raise.ts";
import { templateText, TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Callable, type CallArguments, Namespace, Undefined, type Value } from "../values/value.ts";
import { reprOf } from "../values/value-text.ts";
import { AttributeObject } from "../values/attribute-object.ts";
import { bindPositional } from "./bind-arguments.ts";

// Methods that change their object.
const listChanges = new Set(["append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"]);
const dictChanges = new Set(["clear", "pop", "popitem", "setdefault", "update"]);

/** Names that Python objects have and the sandbox hides: those of every object, and those of texts and containers. */
const internal = new RegExp(
  `^__(?:${[
    "class|doc|init|init_subclass|new|dir|repr|str|format|hash|sizeof|reduce|reduce_ex|subclasshook",
    "getattribute|setattr|delattr|eq|ne|lt|le|gt|ge|len|iter|contains|getitem|add|mul|rmul|mod|rmod",
  ].join("|")})__$`,
);

/** `object.name`. */
export function getAttribute(object: Value, name: string): Value {
  if (object instanceof Undefined) throw undefinedError(object);
  const attribute = pythonAttribute(object, name);
  if (attribute !== undefined) return attribute;
  const item = object instanceof PythonDict ? object.get(name) : undefined;
  return item === undefined ? missing(object, `attribute ${quote(name)}`) : item;
}

/** `object[key]`. */
export function getItem(object: Value, key: Value): Value {
  if (object instanceof Undefined) throw undefinedError(object);
  const item = subscript(object, key);
  if (item !== undefined) return item;
  const attribute = key instanceof TracedText ? pythonAttribute(object, key.text) : undefined;
  return attribute === undefined ? missing(object, `element ${reprOf(key)}`) : attribute;
}

/** What `getattr(object, name)` gives, hidden where the sandbox hides it; `undefined` when there is no such attribute. */
export function pythonAttribute(object: Value, name: string): Value | undefined {
  if (isHidden(object, name)) {
    return new Undefined(`access to ${quote(name)} of a ${typeNameOf(object)} is unsafe`, "security");
  }
  if (object instanceof PythonDict) return bind(object, name, dictMethods.get(name));
  if (object instanceof TracedText) return bind(object, name, textMethods.get(name) ?? formatMethods.get(name));
  if (object instanceof PythonList) return bind(object, name, listMethods.get(name));
  if (object instanceof GroupTuple && name === "grouper") return object.items[0];
  if (object instanceof GroupTuple && name === "list") return object.items[1];
  if (object instanceof PythonTuple) return bind(object, name, tupleMethods.get(name));
  if (object instanceof Namespace) return object.attributes.get(name);
  if (object instanceof AttributeObject) return object.attribute(name);
  if (object instanceof PythonRange && rangeMethods.has(name)) return bind(object, name, rangeMethods.get(name));
  if (object instanceof PythonRange && (name === "start" || name === "stop" || name === "step")) return object[name];
  return undefined;
}

function isHidden(object: Value, name: string): boolean {
  if (object instanceof PythonDict && dictChanges.has(name)) return true;
  if (object instanceof PythonList && listChanges.has(name)) return true;
  return name.startsWith("__") && internal.test(name);
}

const formatMethods: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  ["format", (text, args) => formatBraces(text, args, step)],
  ["format_map", (text, args) => formatMap(text, bindPositional("format_map", args, 1, 1)[0]!, step)],
]);

/** `.name` or `[key]` within a field of a format. */
function step(value: Value, access: string): Value {
  if (access.startsWith(".")) return getAttribute(value, access.slice(1));
  const key = access.slice(1, -1);
  return getItem(value, /^\d+$/.test(key) ? Number(key) : templateText(key));
}

function bind<Self extends Value>(
  self: Self,
  name: string,
  method: ((self: Self, args: CallArguments) => Value) | undefined,
): Callable | undefined {
  return method && new Callable(name, (args) => method(self, args));
}

/** `object[key]` alone; `undefined` where Python raises TypeError or LookupError. */
function subscript(object: Value, key: Value): Value | undefined {
  if (object instanceof PythonDict) {
    const isUnhashable = key instanceof PythonList || key instanceof PythonDict;
    return isUnhashable ? undefined : object.entries.get(hashKey(key))?.value;
  }
  const index = indexOf(key);
  if (index === null) return undefined;
  const isSequence = object instanceof PythonList || object instanceof PythonTuple || object instanceof PythonRange;
  if (!isSequence && !(object instanceof TracedText)) return undefined;
  const length = lengthOf(object);
  const place = index < 0 ? index + length : index;
  if (place < 0 || place >= length) return undefined;
  if (object instanceof TracedText) {
    const start = unitOffset(object.text, place);
    return object.slice(start, start + (object.text.codePointAt(start)! > 0xffff ? 2 : 1));
  }
  return object instanceof PythonRange ? object.at(place) : object.items[place];
}

function indexOf(key: Value): number | null {
  if (typeof key === "boolean") return Number(key);
  return typeof key === "number" ? key : null;
}

function missing(object: Value, what: string): Undefined {
  return new Undefined(`a ${typeNameOf(object)} has no ${what}`);
}

function quote(name: string): string {
  return `"${name}"`;
}
