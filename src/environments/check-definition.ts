// Is a definition one? Checked once, when it is loaded, so that a misspelt field is a sentence before the run and not a fault of
// every episode. Modules of users are JavaScript as often as TypeScript, so nothing is believed.

import { ConfigurationError, messageOf } from "../core/failure.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";

/** Throws a plain error that names the place. */
type Check = (value: unknown, at: string) => void;

/** Throws a `ConfigurationError` that names what is wrong, and where. */
export function checkDefinition(definition: unknown): void {
  let name: unknown = null;
  try {
    ({ name } = object(definition, "the definition"));
    definitionCheck(definition, "");
    const { tools, tasks } = definition as { readonly tools: object; readonly tasks: object };
    if (Object.keys(tools).length === 0 || Object.values(tasks).every((list: unknown[]) => list.length === 0)) {
      throw new TypeError("it needs at least one tool and one task");
    }
  } catch (error) {
    const which = typeof name === "string" && name !== "" ? `environment "${name}"` : "an environment";
    throw new ConfigurationError(`Cannot define ${which}: ${messageOf(error).replace(/\.$/, "")}.`, { cause: error });
  }
}

const text: Check = (value, at) => {
  if (typeof value !== "string") throw misfit(value, at, "a string");
};

const name: Check = (value, at) => {
  if (typeof value !== "string" || value.trim() === "") throw misfit(value, at, "a string that is not empty");
};

const flag: Check = (value, at) => {
  if (typeof value !== "boolean") throw misfit(value, at, "true or false");
};

const code: Check = (value, at) => {
  if (typeof value !== "function") throw misfit(value, at, "a function");
};

const listOf =
  (item: Check, atLeast = 0): Check =>
  (value, at) => {
    if (!Array.isArray(value) || value.length < atLeast) {
      throw misfit(value, at, atLeast === 0 ? "a list" : `a list with at least ${atLeast} item`);
    }
    for (let index = 0; index < value.length; index++) item(value[index], `${at}[${index}]`);
  };

const recordOf =
  (item: Check): Check =>
  (value, at) => {
    for (const [key, each] of Object.entries(object(value, at))) {
      name(key, `a key of ${at}`);
      item(each, `${at}.${key}`);
    }
  };

const orNull =
  (check: Check): Check =>
  (value, at) => {
    if (value !== null) check(value, at);
  };

/** Of an object, by name; those of `optional` may be left out. An unknown name is a misspelt one. */
const fields =
  (required: Readonly<Record<string, Check>>, optional: Readonly<Record<string, Check>> = {}): Check =>
  (value, at) => {
    const given = object(value, at === "" ? "the definition" : at);
    const place = (key: string): string => (at === "" ? key : `${at}.${key}`);
    const known = { ...required, ...optional };
    const unknown = Object.keys(given).find((key) => !Object.hasOwn(known, key));
    for (const [key, check] of Object.entries(known)) {
      const field = given[key];
      if (field === undefined && Object.hasOwn(optional, key)) continue;
      if (field === undefined && unknown !== undefined) {
        throw new TypeError(`${place(key)} is missing, and nothing reads ${place(unknown)}`);
      }
      check(field, place(key));
    }
    if (unknown !== undefined) {
      throw new TypeError(`nothing reads ${place(unknown)}; there are ${Object.keys(known).join(", ")}`);
    }
  };

const strings = listOf(text);
/** One of them is chosen. */
const choice = listOf(text, 1);
const slots = listOf(fields({ name: text, askedBy: strings, answers: choice }));
const confirmation = fields({ mustName: listOf(strings), corrections: choice });

const patience: Check = (value, at) => {
  if (typeof value !== "number" || !(value >= 1)) throw misfit(value, at, "a number of at least 1");
};

const agenda = fields({
  greetings: choice,
  slots,
  goals: listOf(
    fields({
      name: text,
      requests: choice,
      slots,
      confirmation: orNull(confirmation),
      secondThought: orNull(fields({ words: choice, slots, confirmation })),
      settledBy: strings,
      objections: strings,
    }),
    1,
  ),
  farewells: choice,
  patience,
});

const jsonTypes: readonly unknown[] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/** What of a JSON Schema is got wrong by hand; the rest is checked where arguments are. */
const schema: Check = (value, at) => {
  if (typeof value === "boolean") return;
  const { type, properties, required, items } = object(value, at);
  const types: readonly unknown[] = Array.isArray(type) ? type : type === undefined ? [] : [type];
  const unknown = types.findIndex((one) => !jsonTypes.includes(one));
  if (unknown !== -1) throw misfit(types[unknown], `${at}.type`, `one of ${jsonTypes.join(", ")}`);
  if (properties !== undefined) recordOf(schema)(properties, `${at}.properties`);
  if (required !== undefined) strings(required, `${at}.required`);
  if (items !== undefined && !Array.isArray(items)) schema(items, `${at}.items`);
};

const parameters: Check = (value, at) => {
  const { type } = object(value, at);
  if (type !== undefined && type !== "object") throw misfit(type, `${at}.type`, '"object"');
  json(value, at);
  schema(value, at);
};

const json: Check = (value, at) => {
  try {
    fromPlain(value);
  } catch (error) {
    throw new TypeError(
      `${at} is not plain data (${messageOf(error)
        .replace(/^.*JSON: /, "")
        .replace(/\.$/, "")})`,
      {
        cause: error,
      },
    );
  }
};

/** Tasks often share one state. */
function stateCheck(): Check {
  const known = new WeakSet<object>();
  return (value, at) => {
    if (value === undefined) throw misfit(value, at, "plain data");
    if (typeof value === "object" && value !== null && known.has(value)) return;
    json(value, at);
    if (typeof value === "object" && value !== null) known.add(value);
  };
}

const definitionCheck: Check = (value, at) =>
  fields({
    name,
    guidelines: text,
    tools: recordOf(fields({ description: text, parameters, run: code }, { endsEpisode: flag })),
    tasks: recordOf(listOf(fields({ state: stateCheck() }, { instruction: text, agenda }))),
    grade: code,
  })(value, at);

function object(value: unknown, at: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw misfit(value, at, "an object");
}

function misfit(value: unknown, at: string, needed: string): TypeError {
  if (value === undefined) return new TypeError(`${at} is missing, ${needed} is needed`);
  return new TypeError(`${at} is ${shown(value)}, ${needed} is needed`);
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "string" && value.length <= 40) return JSON.stringify(value);
  const isShort = value === null || typeof value === "number" || typeof value === "boolean";
  return isShort ? String(value) : typeof value === "object" ? "an object" : `a ${typeof value}`;
}
