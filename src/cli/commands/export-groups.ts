// The groups of run folders, one at a time: a group is put together when the record that decided it is reached, so that only
// episodes of groups under way are held. Numbers of groups and episodes are counted over all runs.

import type { Episode, EpisodeSamples, GroupRecord } from "../../core/index.ts";
import type { GroupToExport } from "../../export/index.ts";
import type { RunReader } from "../../store/index.ts";

export type RunToExport = {
  readonly reader: RunReader;
  /** `null` when it is the only one. */
  readonly name: string | null;
  /** What the run trained of an episode. */
  readonly samplesOf: (episode: Episode) => Promise<EpisodeSamples>;
};

/** "export": counted over all runs. "run": those that the run gave its groups and episodes. */
export type RowNumbers = "export" | "run";

/**
 * Decided groups in the order of their decisions, then what was not decided. Throws when a record cannot be read, and when an
 * episode's tokens are lost or would be trained twice.
 */
export async function* readExportGroups(
  runs: readonly RunToExport[],
  rowNumbers: RowNumbers = "export",
): AsyncGenerator<GroupToExport> {
  const numbers = { group: 0, episode: 0 };
  for (const run of runs) {
    const open = new OpenGroups();
    const stride = rowNumbers === "run" ? await episodesPerGroup(run.reader) : null;
    const episodes = run.reader.episodes()[Symbol.asyncIterator]();
    const readOne = async (): Promise<boolean> => {
      const next = await episodes.next();
      if (next.done !== true) open.add(next.value);
      return next.done !== true;
    };
    const give = async (
      members: readonly Episode[],
      decided: Pick<GroupToExport, "decision" | "reason"> & { readonly groupIndex?: number },
    ): Promise<GroupToExport> => {
      const { decision, reason, groupIndex: own = 0 } = decided;
      const groupIndex = stride === null ? numbers.group++ : own;
      const numbered = [];
      for (const episode of members) {
        const index = stride === null ? numbers.episode++ : own * stride + episode.sampleIndex;
        numbered.push({ episode, result: await run.samplesOf(episode), index });
      }
      return { run: run.name, groupIndex, decision, reason, episodes: numbered };
    };
    try {
      for await (const record of run.reader.groups()) {
        while (!open.hasAll(record) && (await readOne()));
        const { members, others } = open.take(record, run.reader.location);
        const { decision, reason, groupIndex } = record;
        yield await give(members, { decision, reason, groupIndex });
        // Played in place of one of them, or cancelled when the group was cut off.
        if (others.length > 0) yield await give(others, { decision: "dropped", reason: "other episodes make it up" });
      }
      while (await readOne());
    } finally {
      await episodes.return?.();
    }
    for (const members of open.rest()) yield await give(members, { decision: "undecided", reason: null });
  }
}

/** How many numbers of episodes a group of the run takes: its size, and the replacements that it may run. */
async function episodesPerGroup(reader: RunReader): Promise<number> {
  const configuration = (await reader.manifest()).get("configuration");
  const number = (key: string): number => Number((configuration instanceof Map && configuration.get(key)) || 0);
  return (number("group-size") || number("group-size") || 1) + number("replacements");
}

/** Episodes that were read and whose group was not. */
class OpenGroups {
  readonly #groups = new Map<string, Map<string, Episode>>();

  add(episode: Episode): void {
    const members = this.#groups.get(episode.groupId) ?? new Map<string, Episode>();
    this.#groups.set(episode.groupId, members.set(episode.id, episode));
  }

  hasAll({ groupId, episodeIds }: GroupRecord): boolean {
    const members = this.#groups.get(groupId);
    return episodeIds.every((id) => members?.has(id) === true);
  }

  /** The group's episodes, and others of its name. Throws when one is missing. */
  take({ groupId, episodeIds }: GroupRecord, location: string): { members: Episode[]; others: Episode[] } {
    const found = this.#groups.get(groupId) ?? new Map<string, Episode>();
    this.#groups.delete(groupId);
    const members = episodeIds.map((id) => {
      const episode = found.get(id);
      if (episode !== undefined) return episode;
      throw new Error(
        `Cannot export group "${groupId}" of run "${location}": its episode "${id}" is not in the folder.`,
      );
    });
    return { members, others: [...found.values()].filter(({ id }) => !episodeIds.includes(id)) };
  }

  rest(): Episode[][] {
    return [...this.#groups.values()].map((members) => [...members.values()]);
  }
}
