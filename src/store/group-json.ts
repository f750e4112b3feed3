// A group as one line of `groups.jsonl`. Names are those of `GroupRecord`; `rows` counts the lines that the group has in
// `samples.jsonl`, so that whoever goes on with a run knows which rows belong to no decided group yet.

import type { GroupRecord } from "../core/index.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import { fromPlain } from "../lib/json/plain.ts";
import type { JsonValue } from "../lib/json/value.ts";
import { JsonFields } from "./json-fields.ts";
import type { DecidedGroup } from "./run-store.ts";

/** A group as it stands in its file. */
export type StoredGroup = { readonly group: GroupRecord; readonly rows: number };

/** Without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function groupLine({ group, sampleLines }: DecidedGroup): string {
  return dumpJson(fromPlain({ ...group, rows: sampleLines.length }), { separators: [",", ":"], ensureAscii: true });
}

/** The inverse of `groupLine`. Throws a plain error that names the field; `where` says in which record. */
export function groupFromJson(value: JsonValue, where: string): StoredGroup {
  const fields = new JsonFields(value, where);
  return {
    group: {
      groupId: fields.text("groupId"),
      taskId: fields.text("taskId"),
      groupIndex: fields.number("groupIndex"),
      decision: fields.oneOf("decision", ["kept", "dropped"]),
      reason: fields.nullable("reason", (key) => fields.text(key)),
      episodeIds: fields.texts("episodeIds"),
      rewards: fields.numbersOrNull("rewards"),
    },
    rows: fields.number("rows"),
  };
}
