// Python's values, for code whose results must match Python byte for byte: their arithmetic, order
// and text. Lossless JSON is in `json/`, source text in `tokens.ts`, `syntax.ts`, `literals.ts` and
// `evaluate.ts`. It is not an interpreter.

export * from "./complex.ts";
export * from "./errors.ts";
export * from "./format.ts";
export * from "./limits.ts";
export * from "./methods.ts";
export * from "./number-text.ts";
export * from "./numbers.ts";
export * from "./operations.ts";
export * from "./string-repr.ts";
export * from "./strings.ts";
export * from "./traced-text.ts";
export * from "./values.ts";
export { numberOf, pythonTypeName } from "./json/value.ts";
