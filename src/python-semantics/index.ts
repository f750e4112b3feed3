// Door of Python's text and value semantics, where ours must match byte for byte. Not an interpreter.

export { pythonAdd, pythonMultiply, pythonNegate, pythonSubtract } from "./arithmetic.ts";
export { compareCodePoints } from "./compare.ts";
export { isOrEquals, pythonEquals } from "./equal.ts";
export { evaluateExpression } from "./expression/evaluate.ts";
export { floatRepr } from "./float-repr.ts";
export { pythonLess } from "./less.ts";
export { pythonLower } from "./lower.ts";
export { pythonInt } from "./parse-int.ts";
export { PythonError } from "./python-error.ts";
export { pythonRepr, pythonStr, stringRepr } from "./repr.ts";
export { pythonRound, roundFloat } from "./round.ts";
export { pythonLstrip, pythonRstrip, pythonStrip } from "./strip.ts";
export { type PythonTypeName, pythonTypeName } from "./type-name.ts";
