// What a training is asked for. A file of its own, because the training and its algorithms both read it.

import type { Sabotage } from "../../learner/index.ts";
import type { CliContext } from "../cli-context.ts";
import type { RolloutSettings } from "../../api/rollout-settings.ts";
import type { TrainSettings } from "../../api/train-settings.ts";

export type TrainingOptions = {
  readonly settings: TrainSettings;
  readonly base: RolloutSettings;
  /** Run folder, absolute. */
  readonly folder: string;
  readonly context: CliContext;
  /** For experiments that show what the checks are for. Default: "none". */
  readonly sabotage?: Sabotage;
};
