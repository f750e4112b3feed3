// Findings about an environment, as data: `doctor environment --json` prints them, so their names
// are part of the command.

import type { EnvironmentConformanceOptions } from "./environment-conformance.ts";

/** One thing that was examined. */
export type EnvironmentFinding = {
  /** The subject of the check: "determinism", "constant policy". */
  readonly check: string;
  /** A warning costs learning or time, a fault breaks runs or makes their rewards meaningless. */
  readonly result: "ok" | "warning" | "fault";
  /** One sentence. */
  readonly text: string;
  /** Completes "Remedy: ..."; `null` where nothing is to be done. */
  readonly remedy: string | null;
};

export type EnvironmentExamination = EnvironmentConformanceOptions & {
  /** Once it is aborted, nothing further begins. */
  readonly signal?: AbortSignal;
  readonly onFinding?: (finding: EnvironmentFinding) => void;
};
