// Reads and counts records for suites whose golden files hold one JSON object per line. Lossless,
// because templates and parsers write `1.0` and `1` differently.

import { readFile } from "node:fs/promises";

import { dumpJson, type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";
import type { GoldenFileReport } from "./suite.ts";

const shownFailures = 10;
/** Characters shown on either side of the first difference. */
const excerpt = 80;

/**
 * Records of a file. Throws for a line that is not a JSON object: the file is then not a golden
 * file.
 */
export async function readGoldenFile(path: string): Promise<JsonObject[]> {
  const text = await readFile(path, "utf8");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line, index) => {
      const record = parseJson(line);
      if (record instanceof Map) return record;
      throw new Error(`Cannot read golden file "${path}": record ${index + 1} is not a JSON object.`);
    });
}

/** Counts the results of the records of one file. */
export class GoldenTally {
  readonly #file: string;
  #passed = 0;
  #failed = 0;
  #unsupported = 0;
  readonly #reasons = new Set<string>();
  readonly #failures: { readonly id: string; readonly difference: string }[] = [];

  /** `file` is relative to the suite's folder. */
  constructor(file: string) {
    this.#file = file;
  }

  /** Passes a record if `play` returns the recorded value; an exception fails it. */
  compare(record: JsonObject, expected: JsonValue, play: () => JsonValue): void {
    let difference: string | null;
    try {
      difference = describeDifference(expected, play());
    } catch (error) {
      difference = `threw ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
    }
    if (difference === null) {
      this.#passed++;
      return;
    }
    this.#failed++;
    if (this.#failures.length < shownFailures) this.#failures.push({ id: textOf(record, "id") ?? "?", difference });
  }

  unsupported(reason: string): void {
    this.#unsupported++;
    this.#reasons.add(reason);
  }

  report(): GoldenFileReport {
    return {
      file: this.#file,
      passed: this.#passed,
      failed: this.#failed,
      unsupported: this.#unsupported,
      failures: this.#failures,
      unsupportedReason: this.#reasons.size === 0 ? null : [...this.#reasons].join("; "),
    };
  }
}

/**
 * First difference, with its path; `null` when both are the same JSON. Order of keys does not
 * matter.
 */
export function describeDifference(expected: JsonValue, actual: JsonValue, path = ""): string | null {
  if (expected instanceof Map && actual instanceof Map) {
    for (const key of new Set([...expected.keys(), ...actual.keys()])) {
      const place = path === "" ? key : `${path}.${key}`;
      if (!actual.has(key)) return `${place}: missing, expected ${cut(dumpJson(expected.get(key)!), 0)}`;
      if (!expected.has(key)) return `${place}: not expected, got ${cut(dumpJson(actual.get(key)!), 0)}`;
      const difference = describeDifference(expected.get(key)!, actual.get(key)!, place);
      if (difference !== null) return difference;
    }
    return null;
  }
  if (Array.isArray(expected) && Array.isArray(actual) && expected.length === actual.length) {
    for (const [index, item] of expected.entries()) {
      const difference = describeDifference(item, actual[index]!, `${path}[${index}]`);
      if (difference !== null) return difference;
    }
    return null;
  }
  const wanted = dumpJson(expected);
  const got = dumpJson(actual);
  if (wanted === got) return null;
  let at = 0;
  while (wanted[at] === got[at]) at++;
  const start = Math.max(0, at - excerpt);
  return `${path} differs at character ${at}\nexpected ${cut(wanted, start)}\n     got ${cut(got, start)}`;
}

function cut(text: string, start: number): string {
  const piece = text.slice(start, start + 2 * excerpt);
  return `${start > 0 ? "…" : ""}${piece}${start + piece.length < text.length ? "…" : ""}`;
}

/** String of a record; `null` if the key is absent. */
export function textOf(record: JsonObject, key: string): string | null {
  const value = record.get(key);
  return typeof value === "string" ? value : null;
}
