// Names of fields in Google's bodies: those of the JSON form, in camel case. Its servers also take
// the names of the protocol buffers, in snake case.

export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object with its own fields in camel case, not those inside them; any other value is unchanged. */
export function camelNames(value: unknown): unknown {
  if (!isFields(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [camelName(name), one]));
}

function camelName(name: string): string {
  if (!/^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$/.test(name)) return name;
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** A list; any other value is a list of one, as Google's servers read it. */
export function listOf(value: unknown): unknown {
  return value === undefined || value === null || Array.isArray(value) ? value : [value];
}
