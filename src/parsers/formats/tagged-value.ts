// Values of Qwen3-Coder's and MiMo's parameter tags by the declared type: the names of many type systems are understood,
// and what does not fit its type stays text.

import { parseJson } from "../../python-semantics/json/index.ts";
import {
  evaluateLiteral,
  pythonInt,
  pythonLower,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";

export type TaggedValueRules = {
  /** `float(text)`, and to an integer where the format wants one. */
  readonly readNumber: (text: string) => PythonValue;
  /** Python exceptions out of reading a literal that leave the text as it is; `null`: all. */
  readonly ignoredOfLiterals: readonly string[] | null;
};

type Reader = (text: string, rules: TaggedValueRules) => PythonValue | undefined;

const readLiteral: Reader = (text, { ignoredOfLiterals }) =>
  unlessRaised(ignoredOfLiterals, () => evaluateLiteral(text));

/** The first row whose names fit the type counts; any other type is read as a Python literal. */
const readers: readonly (readonly [types: RegExp, read: Reader])[] = [
  [/^(?:string|str|text|varchar|char|enum)$/, (text) => text],
  [/^(?:int|uint|long|short|unsigned)/, (text) => unlessRaised(["ValueError"], () => pythonInt(text))],
  [/^(?:num|float)/, (text, rules) => unlessRaised(["ValueError"], () => rules.readNumber(text))],
  [/^(?:boolean|bool|binary)$/, (text) => pythonLower(text) === "true"],
  [
    /^(?:object|array|arr)$|^(?:dict|list)/,
    (text, rules) => {
      const json = unlessRaised(["JSONDecodeError", "ValueError", "RecursionError"], () => parseJson(text));
      return json === undefined ? readLiteral(text, rules) : json;
    },
  ],
];

export function readTaggedValue(text: string, type: string, rules: TaggedValueRules): PythonValue {
  const read = readers.find(([types]) => types.test(type))?.[1] ?? readLiteral;
  const value = read(text, rules);
  return value === undefined ? text : value;
}
