// The slow, obvious store: everything in arrays. For tests and for library use without files. It passes episodes through
// their JSON text, so that what it gives back is what a file would give back.

import { ConfigurationError, type Episode } from "../core/index.ts";
import { parseJson } from "../lib/json/parse-json.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { episodeFromJson } from "./episode-from-json.ts";
import { episodeLine } from "./episode-to-json.ts";
import type { RunReader, RunStore } from "./run-store.ts";
import { closedStore, storeFault, unbegunStore } from "./store-fault.ts";

/** A store that is its own reader. */
export function createMemoryRunStore(): RunStore & RunReader {
  const location = "memory";
  const episodeLines: string[] = [];
  const sampleLines: string[] = [];
  let manifest: JsonObject | null = null;
  let closed = false;
  return {
    location,
    begin: async (first) => {
      if (manifest !== null)
        throw new ConfigurationError("Cannot start a run in memory: this store holds one already.");
      manifest = first;
    },
    append: async (record) => {
      if (manifest === null) throw unbegunStore(location);
      if (closed) throw closedStore(location);
      try {
        const line = episodeLine(record.episode);
        sampleLines.push(...record.sampleLines);
        episodeLines.push(line);
      } catch (error) {
        throw storeFault(`keep episode "${record.episode.id}"`, location, error);
      }
    },
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
    sampleLines: async function* () {
      yield* sampleLines;
    },
  };
}
