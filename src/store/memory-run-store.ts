// The slow, obvious store: everything in arrays. For tests and for library use without files. It passes episodes through
// their JSON text, so that it returns what a file would return.

import { ConfigurationError, type Episode, type GroupRecord } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { ByteWriter } from "./byte-writer.ts";
import { episodeFromJson } from "./records.ts";
import { episodeLine } from "./records.ts";
import { groupFromJson, storedGroup } from "./records.ts";
import { type RunReader, type RunStore, closedStore, storeFault, unbegunStore } from "./run-store.ts";

/** A store that is its own reader. */
export function createMemoryRunStore(): RunStore & RunReader {
  const location = "memory";
  const episodeLines: string[] = [];
  const groupLines: string[] = [];
  const sampleLines: string[] = [];
  let manifest: JsonObject | null = null;
  let closed = false;
  const append = async (task: string, write: () => void): Promise<void> => {
    if (manifest === null) throw unbegunStore(location);
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
        throw new ConfigurationError("Cannot start a run in memory: this store holds one already.");
      manifest = first;
    },
    append: (episode) => append(`store episode "${episode.id}"`, () => void episodeLines.push(episodeLine(episode))),
    appendGroup: (decided) =>
      append(`store group "${decided.group.groupId}"`, () => {
        const writer = new ByteWriter();
        storedGroup.write(writer, { ...decided.group, samplesEnd: 0 });
        const line = writer.view().toString();
        sampleLines.push(...decided.sampleLines);
        groupLines.push(line);
      }),
    close: async (last) => {
      if (manifest === null) throw unbegunStore(location);
      if (closed) return;
      closed = true;
      manifest = last;
    },
    manifest: async () => {
      if (manifest === null) throw unbegunStore(location);
      return manifest;
    },
    episodes: async function* (): AsyncGenerator<Episode> {
      for (const [index, line] of episodeLines.entries()) {
        yield episodeFromJson(parseJson(line), `record ${index + 1}`);
      }
    },
    groups: async function* (): AsyncGenerator<GroupRecord> {
      for (const [index, line] of groupLines.entries()) {
        yield groupFromJson(parseJson(line), `group ${index + 1}`).group;
      }
    },
    sampleLines: async function* () {
      yield* sampleLines;
    },
  };
}
