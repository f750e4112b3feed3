// Objects whose names somebody else chose. A name may be one that JavaScript gives every object: `__proto__`, `constructor`, `toString`.

import { z } from "zod";

/** A schema of objects with any names, `__proto__` too, which zod's own record drops; every value is an `item`. */
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
    // It makes properties of the object's own.
    return Object.fromEntries(entries);
  };
  const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
  return z.custom<Record<string, T>>(isObject, "Invalid input: expected an object").transform(read);
}
