// How many episodes at once, as people write it: a number, bounds like 16-256, or "auto".

import { z } from "zod";
import { type Setting, setting } from "./setting.ts";

export type ConcurrencyValue = number | string;

/** The bounds of "auto": no server that trains is too small for the first, and few are large enough for the second. */
const auto = { floor: 4, ceiling: 1024 };
const most = 100_000;

const numberText = /^\d+$/;
const bounds = /^(\d+)\s*-\s*(\d+)$/;

export const concurrencySetting: Setting<ConcurrencyValue> = setting<ConcurrencyValue>({
  group: "Limits",
  flag: "--concurrency <auto|n|min-max>",
  help: "episodes at once: a number, or as many as the servers are busy with, between two bounds (auto: 4-1024)",
  wanted: "a whole number from 1 to 100000, two with a dash between them, or auto",
  schema: z
    .preprocess(
      (value) => (typeof value === "string" && numberText.test(value.trim()) ? Number(value) : value),
      z.union([z.number(), z.string()]),
    )
    .refine((value) => readBounds(value) !== null),
  default: 64,
});

/** Equal bounds: the number stays. */
export function concurrencyBounds(value: ConcurrencyValue): { readonly floor: number; readonly ceiling: number } {
  return readBounds(value) ?? { floor: 1, ceiling: 1 };
}

function readBounds(value: ConcurrencyValue): { floor: number; ceiling: number } | null {
  if (value === "auto") return auto;
  const [, low, high] = bounds.exec(String(value)) ?? [];
  const [floor, ceiling] = typeof value === "number" ? [value, value] : [Number(low), Number(high)];
  const isWhole = Number.isInteger(floor) && Number.isInteger(ceiling);
  return isWhole && floor >= 1 && floor <= ceiling && ceiling <= most ? { floor, ceiling } : null;
}
