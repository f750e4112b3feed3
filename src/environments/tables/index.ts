// Public entry of the code that benchmarks with tables share: records over shared ones, and reading
// them as Python does.

export * from "./airline.ts";
export * from "./fields.ts";
export * from "./shop.ts";
export * from "./table-tool.ts";
export { remembered, SharedTables, sortedKeys, type Table, Tables } from "./tables.ts";
