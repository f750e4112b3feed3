// Objects whose names somebody else chose. A name may be one that JavaScript gives every object: `__proto__`, `constructor`, `toString`.
// zod drops `__proto__` where it copies an object with unknown names (records, loose objects, its own JSON), so schemas use this instead.

import { z } from "zod";

type AnyNamesOptions = {
  /** Each name is one; `null`: any name. */
  readonly name?: z.ZodType<string> | null;
  /** The message for a value that is not an object. */
  readonly error?: string;
};

/** A schema of plain objects with any names, `__proto__` too; every value is an `item`. Issues keep the place and the code of the item's. */
export function anyNames<Item extends z.ZodType>(
  item: Item,
  { name = null, error = "Invalid input: expected an object" }: AnyNamesOptions = {},
): z.ZodType<Record<string, z.output<Item>>, Record<string, z.output<Item>>> {
  const read = (given: Record<string, unknown>, context: z.RefinementCtx): Record<string, z.output<Item>> => {
    const entries = Object.entries(given).flatMap(([key, value]): [string, z.output<Item>][] => {
      const misnamed = name?.safeParse(key).error?.issues;
      if (misnamed !== undefined) {
        context.issues.push({ code: "invalid_key", origin: "record", issues: misnamed, input: key, path: [key] });
      }
      const found = item.safeParse(value, { reportInput: true });
      if (found.success) return [[key, found.data]];
      for (const issue of found.error.issues) {
        context.issues.push({ ...issue, path: [key, ...issue.path] } as (typeof context.issues)[number]);
      }
      return [];
    });
    // It makes properties of the object's own.
    return Object.fromEntries(entries);
  };
  const object = z.custom<Record<string, z.output<Item>>>(isPlainObject, error).meta({ type: "object" });
  return object.transform(read);
}

/** An object literal or what a JSON reader returns, of any realm; not a list, and not an instance of a class. */
function isPlainObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.hasOwn(prototype, "isPrototypeOf");
}
