// Public entry of what benchmarks with tables share: records over shared ones, and reading them as Python does.

export { airports } from "./airports.ts";
export { calculated } from "./fields.ts";
export * from "./fields.ts";
export { remembered, SharedTables, sortedKeys, type Table, Tables } from "./tables.ts";
