// Public entry of Python's values, where ours must match byte for byte: their arithmetic, order, text and literals. Lossless
// JSON is in `json/`. Not an interpreter.

export { bindArguments, bindPositional, expectText } from "./arguments.ts";
export { PythonError, pythonExceptionType, typeError, unlessRaised, valueError } from "./errors.ts";
export { evaluateExpression } from "./evaluate.ts";
export { formatBraces, formatMap, formatPercent, originOfValue, textOf } from "./format.ts";
export { pythonTypeName } from "./json/value.ts";
export { AllowanceSpent, checkTextLength, itemsMade, limitError, spend, withAllowance } from "./limits.ts";
export { argumentValue, callsOf, evaluateLiteral, literalErrors, makeDict } from "./literals.ts";
export {
  capitalize,
  fillText,
  isLower,
  isUpper,
  joinStrings,
  methodOf,
  replaceText,
  splitLines,
  strip,
} from "./methods.ts";
export {
  floatRepr,
  integerOf,
  narrowFloat,
  normalInteger,
  pythonFloat,
  pythonInt,
  pythonRound,
  roundFloat,
} from "./number-text.ts";
export {
  type BinaryOperator,
  calculateNumbers,
  type IntegerBudget,
  numberOf,
  pythonAdd,
  pythonMultiply,
  pythonNegate,
  pythonSubtract,
  toFloat,
} from "./numbers.ts";
export {
  applySign,
  calculate,
  compareValues,
  contains,
  expectIndex,
  isIterable,
  isOrdered,
  isOrEquals,
  isSame,
  isTruthy,
  itemAt,
  itemsOf,
  iteratorOf,
  lengthOf,
  type OrderOperator,
  pythonEquals,
  pythonLess,
  sizedItems,
  sliceValue,
} from "./operations.ts";
export { compile, findPattern, literal, many, maybe, one, type Piece, sequence } from "./pattern-matcher.ts";
export {
  codePointLength,
  compareCodePoints,
  isSpace,
  pythonLower,
  pythonLstrip,
  pythonRstrip,
  pythonStrip,
  space,
  spaced,
  unitOffset,
  verbatim,
  whitespaceClass,
  wordCharacters,
} from "./strings.ts";
export { stringRepr } from "./string-repr.ts";
export { parseFirstStatementValue } from "./syntax.ts";
export { simpleEscapes } from "./tokens.ts";
export {
  concatStrings,
  emptyText,
  escapeText,
  type Origin,
  originOf,
  runsOf,
  templateOrigin,
  templateText,
  toolsOrigin,
  TracedText,
  unknownOrigin,
} from "./traced-text.ts";
export {
  Callable,
  type CallArguments,
  type DictEntry,
  DictView,
  fromJson,
  hashKey,
  isDict,
  isList,
  lengthIn,
  Namespace,
  orUndefined,
  PythonDict,
  PythonIterator,
  PythonList,
  PythonObject,
  PythonRange,
  pythonRepr,
  pythonStr,
  PythonTuple,
  type PythonValue,
  Undefined,
} from "./values.ts";
