// `object.name` and `object[key]` as Jinja's sandboxed environment looks them up, and calls.

import {
  bindPositional,
  Callable,
  type CallArguments,
  formatBraces,
  formatMap,
  itemAt,
  methodOf,
  PythonDict,
  PythonList,
  PythonObject,
  pythonRepr,
  pythonTypeName,
  type PythonValue,
  templateText,
  TracedText,
  typeError,
  Undefined,
} from "../../python-semantics/index.ts";

// Methods that change their object.
const listChanges = new Set(["append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"]);
const dictChanges = new Set(["clear", "pop", "popitem", "setdefault", "update"]);

/**
 * Names that Python objects have and the sandbox hides: those of every object, and those of strings
 * and containers.
 */
const internal = new RegExp(
  `^__(?:${[
    "class|doc|init|init_subclass|new|dir|repr|str|format|hash|sizeof|reduce|reduce_ex|subclasshook",
    "getattribute|setattr|delattr|eq|ne|lt|le|gt|ge|len|iter|contains|getitem|add|mul|rmul|mod|rmod",
  ].join("|")})__$`,
);

/** `object.name`: attributes before keys; undefined where there is neither. */
export function getAttribute(object: PythonValue, name: string): PythonValue {
  if (object instanceof Undefined) throw object.error;
  const attribute = pythonAttribute(object, name);
  if (attribute !== undefined) return attribute;
  const item = object instanceof PythonDict ? object.entries.get(name)?.value : undefined;
  return item === undefined ? missing(object, `attribute "${name}"`) : item;
}

/** `object[key]`: keys before attributes; undefined where there is neither. */
export function getItem(object: PythonValue, key: PythonValue): PythonValue {
  if (object instanceof Undefined) throw object.error;
  const isUnhashable = key instanceof PythonList || key instanceof PythonDict;
  const item = object instanceof PythonDict ? (isUnhashable ? undefined : object.get(key)) : itemAt(object, key);
  if (item !== undefined) return item;
  const attribute = key instanceof TracedText ? pythonAttribute(object, key.text) : undefined;
  return attribute === undefined ? missing(object, `element ${pythonRepr(key)}`) : attribute;
}

/**
 * The result of `getattr(object, name)`; `undefined` if the attribute does not exist. Methods that
 * change a list or dict, and private attributes, exist but are hidden: using one raises "security".
 */
export function pythonAttribute(object: PythonValue, name: string): PythonValue | undefined {
  if (isHidden(object, name)) {
    return new Undefined(`access to "${name}" of a ${pythonTypeName(object)} is unsafe`, "security");
  }
  const method = (object instanceof TracedText ? formatMethod(object, name) : undefined) ?? methodOf(object, name);
  if (method !== undefined) return new Callable(name, method);
  return object instanceof PythonObject ? object.attribute(name) : undefined;
}

function isHidden(object: PythonValue, name: string): boolean {
  if (object instanceof PythonDict && dictChanges.has(name)) return true;
  if (object instanceof PythonList && listChanges.has(name)) return true;
  return name.startsWith("__") && internal.test(name);
}

function formatMethod(text: TracedText, name: string): ((args: CallArguments) => PythonValue) | undefined {
  if (name === "format") return (args) => formatBraces(text, args, step);
  if (name !== "format_map") return undefined;
  return (args) => formatMap(text, bindPositional("format_map", args, 1, 1)[0]!, step);
}

/** `.name` or `[key]` within a field of a format. */
function step(value: PythonValue, access: string): PythonValue {
  if (access.startsWith(".")) return getAttribute(value, access.slice(1));
  const key = access.slice(1, -1);
  return getItem(value, /^\d+$/.test(key) ? Number(key) : templateText(key));
}

/** `callee(args)`. Throws "undefined" (or "security" for what the sandbox hides), and a "TypeError" for other values. */
export function callValue(callee: PythonValue, args: CallArguments): PythonValue {
  if (callee instanceof PythonObject) return callee.call(args);
  throw typeError(`'${pythonTypeName(callee)}' object is not callable`);
}

function missing(object: PythonValue, what: string): Undefined {
  return new Undefined(`a ${pythonTypeName(object)} has no ${what}`);
}
