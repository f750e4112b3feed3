// Door of the golden suites: recorded inputs and expected outputs, played through our adapters by the tests and by
// `npm run conformance`.

export { findData, type FindDataOptions } from "./find-data.ts";
export { runConformance, type ConformanceOptions } from "./run-conformance.ts";
export { sharedFolder } from "./shared-folder.ts";
export type { GoldenFileReport, GoldenSuite, GoldenSuiteOptions } from "./suite.ts";
export { loadSuite, suiteNames } from "./suites.ts";
