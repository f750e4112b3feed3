// What the routes of the SGLang front share.

import type { ModelLimits } from "./generate-body.ts";
import type { GenerationContext } from "./generation.ts";

export type FrontState = GenerationContext & {
  readonly limits: ModelLimits;
  readonly modelPath: string;
};
