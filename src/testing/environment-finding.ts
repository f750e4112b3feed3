// What was found out about an environment, as data: what `doctor environment --json` prints, so its names are part of the command.

import type { EnvironmentConformanceOptions } from "./environment-conformance.ts";

/** One thing that was examined. */
export type EnvironmentFinding = {
  /** What was examined: "determinism", "constant policy". */
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
