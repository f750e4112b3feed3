// The slow, obvious store: everything in arrays. For tests and for library use without files. It
// converts episodes to JSON text and back, so that it returns the same values as a file.

import { ConfigurationError, type Episode, type GroupRecord } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { ByteWriter } from "./byte-writer.ts";
import { episodeFromJson, episodeLine, groupFromJson, storedGroup } from "./records.ts";
import { type RunReader, type RunStore, closedStore, storeFault, unbegunStore } from "./run-store.ts";

/** A store that is its own reader. */
export function createMemoryRunStore(): RunStore & RunReader {
  const location = "memory";
  const episodes: Episode[] = [];
  const groups: GroupRecord[] = [];
  const sampleLines: string[] = [];
  let manifest: JsonObject | null = null;
  let closed = false;
  const begun = (): JsonObject => {
    if (manifest === null) throw unbegunStore(location);
    return manifest;
  };
  const append = async (task: string, write: () => void): Promise<void> => {
    begun();
    if (closed) throw closedStore(location);
    try {
      write();
    } catch (error) {
      throw storeFault(task, location, error);
    }
  };
  return {
    location,
    begin: async (first) => {
      if (manifest !== null)
        throw new ConfigurationError("Cannot start a run in memory: this store already holds one; create a new store.");
      manifest = first;
    },
    append: (episode) =>
      append(`store episode "${episode.id}"`, () => {
        episodes.push(episodeFromJson(parseJson(episodeLine(episode)), `record ${episodes.length + 1}`));
      }),
    appendGroup: (decided) =>
      append(`store group "${decided.group.groupId}"`, () => {
        const writer = new ByteWriter();
        storedGroup.write(writer, { ...decided.group, samplesEnd: 0 });
        groups.push(groupFromJson(parseJson(writer.view().toString()), `group ${groups.length + 1}`).group);
        sampleLines.push(...decided.sampleLines);
      }),
    close: async (last) => {
      begun();
      if (!closed) manifest = last;
      closed = true;
    },
    manifest: async () => begun(),
    episodes: () => each(episodes),
    groups: () => each(groups),
    sampleLines: () => each(sampleLines),
  };
}

async function* each<T>(records: readonly T[]): AsyncGenerator<T> {
  yield* records;
}
