// Door of Python's text and value semantics, where ours must match byte for byte. Not an interpreter.

export { pythonAdd, pythonMultiply, pythonNegate, pythonSubtract } from "./arithmetic.ts";
export { compareCodePoints } from "./compare.ts";
export { isOrEquals, pythonEquals } from "./equal.ts";
export { evaluateExpression } from "./expression/evaluate.ts";
export { floatRepr } from "./float-repr.ts";
export { pythonLess } from "./less.ts";
export { pythonLower } from "./lower.ts";
export { PythonError } from "./python-error.ts";
export { pythonRepr, pythonStr, stringRepr } from "./repr.ts";
export { pythonRound, roundFloat } from "./round.ts";
export { pythonLstrip, pythonRstrip, pythonStrip } from "./strip.ts";
export { type PythonTypeName, pythonTypeName } from "./type-name.ts";
export { argumentValue, callsOf } from "./literals/calls.ts";
export { pythonExceptionType, unlessRaised } from "./literals/exception.ts";
export { evaluateLiteral, literalErrors } from "./literals/literal.ts";
export { compile, findPattern, literal, many, maybe, one, type Piece, sequence } from "./literals/pattern-matcher.ts";
export { isSpace, space, spaced, verbatim, wordCharacters } from "./literals/patterns.ts";
export { parseFirstStatementValue } from "./literals/syntax.ts";
export { isTruthy } from "./literals/truth.ts";
export { dumpPython, isDict, isList, makeDict, pythonText, type PythonValue } from "./literals/value.ts";
export { integerOf, narrowFloat, pythonFloat, pythonInt } from "./number-text.ts";
