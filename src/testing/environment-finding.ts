// Findings about an environment, as data: `doctor environment --json` prints them, so their names
// are part of the command.

import type { EnvironmentConformanceOptions } from "./environment-conformance.ts";

/** Result of one check. */
export type EnvironmentFinding = {
  /** The subject of the check: "determinism", "constant policy". */
  readonly check: string;
  /** A warning costs learning or time; a fault breaks runs or makes their rewards meaningless. */
  readonly result: "ok" | "warning" | "fault";
  /** The finding in one sentence. */
  readonly text: string;
  /** Completes "Remedy: ..."; `null` if nothing needs to be done. */
  readonly remedy: string | null;
};

export type EnvironmentExamination = EnvironmentConformanceOptions & {
  /** Once it aborts, no further check begins. */
  readonly signal?: AbortSignal;
  readonly onFinding?: (finding: EnvironmentFinding) => void;
};
