// The bodies of requests that open, grade and end a session.

import { z } from "zod";
import { anyNames } from "../lib/any-names.ts";
import { samplingShape } from "./dialects/request-fields.ts";

export const newSessionSchema = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._:#@/-]{0,127}$/, "letters, digits and . _ : # @ / - are allowed, at most 128")
    .optional(),
  task: z.string().min(1).max(200).optional(),
  group: z.string().min(1).max(200).optional(),
  group_size: z.int().min(1).max(100_000).optional(),
  seed: z.int().min(0).max(0xffff_ffff).optional(),
  sampling: z
    .strictObject({
      temperature: samplingShape.temperature,
      top_p: samplingShape.top_p,
      top_k: samplingShape.top_k,
      min_p: samplingShape.min_p,
      repetition_penalty: samplingShape.repetition_penalty,
      seed: samplingShape.seed,
      max_new_tokens: z.int().min(1).nullish(),
    })
    .optional(),
  environment_task: z.string().min(1).max(200).optional(),
  tags: anyNames(z.union([z.string().max(1000), z.number(), z.boolean(), z.null()])).optional(),
});

export const rewardSchema = z.strictObject({
  reward: z.number(),
  metrics: anyNames(z.number()).default({}),
  log: z.string().default(""),
  /** One reward for each turn so far, in order; they add up to `reward`. */
  turn_rewards: z.array(z.number().nullable()).optional(),
});

export const endSchema = rewardSchema.extend({ reward: z.number().optional() });
