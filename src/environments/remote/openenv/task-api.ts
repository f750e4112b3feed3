// The Task API of openenv 0.10.0: splits and tasks of the server's own. Only the number of tasks is
// requested, because the content of a task may be its answer; the reset of an episode names the
// task by split and index.

import { fromPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonValue } from "../../../python-semantics/json/value.ts";
import { asCount, asList, asObject, asText, fieldOf, remoteFault, type RemoteHttp } from "../index.ts";
import { wellFormed } from "../../../lib/text.ts";
import { setOwn } from "../../../lib/counts.ts";

const where = "an answer of the OpenEnv server's Task API";

/** `sizes`: number of tasks by split. */
export type ServedTasks = { readonly environment: string; readonly sizes: Readonly<Record<string, number>> };

/**
 * The tasks of a server; `null` if it has no Task API, or its environment has no tasks. Rejects
 * with a `remoteFault` for an environment that the server does not list.
 */
export async function servedTasks(
  http: RemoteHttp,
  options: { readonly headers: Readonly<Record<string, string>>; readonly environment: string | null },
): Promise<ServedTasks | null> {
  const { headers } = options;
  const names = asList.read((await http.jsonIfServed({ method: "GET", path: "/list_environments", headers })) ?? null);
  if (names === undefined) return null;
  const environment = choose(
    names.filter((name) => typeof name === "string"),
    options.environment,
  );
  if (environment === null) return null;
  const path = `/${encodeURIComponent(wellFormed(environment))}`;
  const splits = asList.read((await http.jsonIfServed({ method: "GET", path: `${path}/splits`, headers })) ?? null);
  if (splits === undefined) return null;
  const sizes: Record<string, number> = {};
  for (const split of splits.map(nameOf)) {
    const body = fromPlain({ split });
    const answer = await http.jsonIfServed({ method: "POST", path: `${path}/num_tasks`, body, headers });
    const size = asObject.read(answer ?? null);
    if (size !== undefined) setOwn(sizes, split, fieldOf(size, "num_tasks", asCount, where));
  }
  return Object.values(sizes).some((size) => size > 0) ? { environment, sizes } : null;
}

function choose(names: readonly string[], wanted: string | null): string | null {
  if (wanted === null) return names[0] ?? null;
  const found = names.find((name) => name.toLowerCase() === wanted.toLowerCase());
  if (found !== undefined) return found;
  const state = names.length === 0 ? "it serves none" : `it serves ${names.join(", ")}`;
  throw remoteFault("remote-error", `Cannot find environment "${wanted}" of the OpenEnv server: ${state}.`);
}

function nameOf(split: JsonValue): string {
  return split instanceof Map
    ? fieldOf(split, "name", asText, where)
    : fieldOf(new Map([["name", split]]), "name", asText, where);
}
