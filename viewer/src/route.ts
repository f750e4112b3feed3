// The reader's position, as the part of the address after #: every state that matters can be
// linked.

import { computed, signal } from "@preact/signals";
import { wellFormed } from "../../src/viewer/wire/index.ts";

export type Route = {
  /** Parts of the path, decoded: `0`, `episode`, `36`. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
};

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed((): Route => readRoute(hash.value));

function readRoute(text: string): Route {
  const [path = "", query = ""] = text.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  return { parts: parts.map(decoded), query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Encodes a part of an address. Half a character, which no address can hold, becomes the
 * replacement character.
 */
function encoded(part: string | number): string {
  return encodeURIComponent(wellFormed(String(part)));
}

export function linkTo(
  parts: readonly (string | number)[],
  query: Readonly<Record<string, string | number | null>> = {},
): string {
  const given = Object.entries(query).flatMap(([key, value]) =>
    value === null || value === "" ? [] : [`${encoded(key)}=${encoded(value)}`],
  );
  const text = given.join("&");
  return `#/${parts.map(encoded).join("/")}${text === "" ? "" : `?${text}`}`;
}

export function go(link: string): void {
  location.hash = link;
}

/** Changes parts of the query without a new entry in the history. */
export function amend(changes: Readonly<Record<string, string | number | null>>): void {
  const { parts, query } = route.value;
  history.replaceState(null, "", linkTo(parts, { ...Object.fromEntries(query), ...changes }));
  hash.value = location.hash;
}
