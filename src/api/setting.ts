// One setting of a rollout: its flag, its key in a configuration file, what it means and what it must be. Flags bring texts
// and files bring typed values; both are read by the same schema.

import { z } from "zod";

/** How settings are grouped in the help. */
export type SettingGroup =
  | "What is played"
  | "Groups"
  | "The policy"
  | "Sampling"
  | "The user"
  | "Limits"
  | "Output"
  | "Learning"
  | "Evaluation";

/** A flag of one command. */
export type Flag<T> = {
  /** As in the help: `--tasks <list>`. A flag without a value sets true. */
  readonly flag: string;
  readonly help: string;
  /** Completes "..., <wanted> is needed". */
  readonly wanted: string;
  readonly schema: z.ZodType<T>;
  readonly default: T;
};

/** A flag, or a key of a file, that is one of many. */
export type Setting<T> = Flag<T> & { readonly group: SettingGroup };

export function setting<T>(definition: Setting<T>): Setting<T> {
  return definition;
}

/** A number, or its text. Empty texts, hexadecimal and the like are not numbers. */
const numeric = z.preprocess(
  (value) =>
    typeof value === "string" && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value.trim()) ? Number(value) : value,
  z.number(),
);

export const text = z.string().min(1);

export const number = (bounds: {
  readonly min?: number;
  readonly max?: number;
  readonly above?: number;
}): z.ZodType<number> =>
  numeric.refine(
    (value) =>
      value >= (bounds.min ?? -Infinity) && value <= (bounds.max ?? Infinity) && value > (bounds.above ?? -Infinity),
  );

export const whole = (min: number, max = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  numeric.refine((value) => Number.isSafeInteger(value) && value >= min && value <= max);

/** A JSON object, or its text. */
export const jsonObject = z.preprocess(
  (value) => {
    if (typeof value !== "string") return value;
    try {
      return JSON.parse(value) as unknown;
    } catch {
      return value;
    }
  },
  z.record(z.string(), z.unknown()),
);
