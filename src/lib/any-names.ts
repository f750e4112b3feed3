// Objects whose keys come from outside. A key may be a name that every JavaScript object has:
// `__proto__`, `constructor`, `toString`.

import { z } from "zod";

/**
 * A schema of objects with any keys, including `__proto__`, which zod's own record drops; every
 * value is an `item`.
 */
export function anyNames<T>(item: z.ZodType<T>): z.ZodType<Record<string, T>, Record<string, T>> {
  const read = (given: Record<string, unknown>, context: z.RefinementCtx): Record<string, T> => {
    const entries = Object.entries(given).flatMap(([name, value]): [string, T][] => {
      const found = item.safeParse(value);
      if (found.success) return [[name, found.data]];
      for (const { message, path } of found.error.issues) {
        context.addIssue({ code: "custom", message, path: [name, ...path] });
      }
      return [];
    });
    // `Object.fromEntries` defines own properties, even for `__proto__`.
    return Object.fromEntries(entries);
  };
  const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
  return z.custom<Record<string, T>>(isObject, "Invalid input: expected an object").transform(read);
}
