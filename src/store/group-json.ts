// A group as one line of `groups.jsonl`. Names are those of `GroupRecord`; `samplesEnd` says up to which byte
// `samples.jsonl` holds the rows of this group and of those before it, so that whoever goes on with a run knows which rows
// belong to no decided group yet.

import type { GroupRecord } from "../core/index.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonValue } from "../python-semantics/json/value.ts";
import { JsonFields } from "./json-fields.ts";

/** A group as it stands in its file. */
export type StoredGroup = { readonly group: GroupRecord; readonly samplesEnd: number };

/** Without the line end. Lone surrogates, which UTF-8 cannot hold, are escaped. */
export function groupLine(group: GroupRecord, samplesEnd: number): string {
  return dumpJson(fromPlain({ ...group, samplesEnd }), { separators: [",", ":"], ensureAscii: true });
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
    samplesEnd: fields.number("samplesEnd"),
  };
}
