// Addresses of answers, shared by the page that requests them, the server that answers and the
// exported file that holds its answers.

import { wellFormed } from "../../lib/text.ts";

export type PathValue = string | number | boolean | null | undefined;

/** `api/<name>?...`: values in their order, without empty ones. */
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
