// Addresses of answers, the same for the page that asks, the server that answers and the file that brings its answers along.

import { wellFormed } from "../../lib/visible-text.ts";

export type PathValue = string | number | boolean | null | undefined;

/** `api/<name>?...`: names in their order, without what is empty. */
export function apiPath(name: string, values: Readonly<Record<string, PathValue>> = {}): string {
  const query = new URLSearchParams();
  for (const key of Object.keys(values).sort()) {
    const value = values[key];
    if (value !== null && value !== undefined && value !== "" && value !== false)
      query.set(key, value === true ? "1" : wellFormed(String(value)));
  }
  const text = query.toString();
  return text === "" ? `api/${name}` : `api/${name}?${text}`;
}
