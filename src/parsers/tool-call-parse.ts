// What reading one text for tool calls gives: the strict result, and beside it what the strict reading drops in silence.

import type { ParseProblem } from "../core/index.ts";
import type { DetectedCall } from "./tool-call-scan.ts";

export type ToolCallParse = {
  /** Text beside the calls as the format cuts it; the whole text, untrimmed, when no call came out. */
  readonly normalText: string;
  readonly calls: readonly DetectedCall[];
  /** Class of the Python exception that SGLang lets out; then there are no calls. `null`: none. */
  readonly raised: string | null;
  /** The format's own cut even where no call came out; `null` when an exception escaped. */
  readonly detectorNormalText: string | null;
  /** In the order of the text. */
  readonly problems: readonly ParseProblem[];
};
