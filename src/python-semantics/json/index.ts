// Public entry of lossless JSON: what is read and written here is what Python would read and write.

export { type DumpJsonOptions, dumpJson } from "./dump-json.ts";
export { JsonSyntaxError } from "../errors.ts";
export { type JsonPrefix, parseJson, parseJsonPrefix } from "./parse-json.ts";
export { fromForeign, fromPlain, plainJson, toPlain } from "./plain.ts";
export { cloneJson, JsonFloat, type JsonObject, type JsonValue } from "./value.ts";
