// Bodies of requests, parsed by schemas whose messages are the server's own.

import type { z } from "zod";

export type Fields = Readonly<Record<string, unknown>>;

/** The first error of a value. */
type Issue = z.core.$ZodIssue;

/**
 * The value as parsed by the schema. Throws the error that `refuse` makes from the first issue;
 * `say` gives the message of an issue that has none.
 */
export function readWith<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  { say, refuse }: { readonly say?: z.core.$ZodErrorMap; readonly refuse: (issue: Issue) => Error },
): z.output<Schema> {
  const read = schema.safeParse(value, { reportInput: true, ...(say === undefined ? {} : { error: say }) });
  if (read.success) return read.data;
  throw refuse(read.error.issues.find(({ code }) => code === "unrecognized_keys") ?? read.error.issues[0]!);
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields without nulls, which count as absent except under the names in `except`. */
export function withoutNulls(fields: Fields, except: (name: string) => boolean = () => false): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== null || except(name)));
}
