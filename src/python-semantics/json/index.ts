// Public entry of lossless JSON, which reads and writes the same JSON as Python.

export { type DumpJsonOptions, dumpJson } from "./dump-json.ts";
export { JsonSyntaxError } from "../errors.ts";
export { type JsonPrefix, parseJson, parseJsonPrefix } from "./parse-json.ts";
export { fromForeign, fromPlain, plainJson, toPlain } from "./plain.ts";
export { cloneJson, JsonFloat, type JsonObject, type JsonValue } from "./value.ts";
