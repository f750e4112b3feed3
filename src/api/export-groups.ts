// Groups of run folders, one at a time: a group is assembled when the record that decided it is
// read, so that only episodes of groups in flight are held. Groups and episodes are numbered over
// all runs.

import type { Episode, EpisodeSamples } from "../core/index.ts";
import type { GroupToExport } from "../export/index.ts";
import { type RunFolder, runFacts } from "../store/index.ts";

export type RunToExport = {
  readonly reader: RunFolder;
  /** `null` when it is the only one. */
  readonly name: string | null;
  /** Samples of an episode that the run trained on. */
  readonly samplesOf: (episode: Episode) => Promise<EpisodeSamples>;
};

/**
 * Decided groups in the order of their decisions, then the undecided ones. `numbers`: counted over
 * all runs, or those that the run gave its groups and episodes. Throws when a record cannot be
 * read, and when an episode's tokens are lost or would be trained twice.
 */
export async function* readExportGroups(
  runs: readonly RunToExport[],
  numbers: "export" | "run",
): AsyncGenerator<GroupToExport> {
  const counted = { group: 0, episode: 0 };
  for (const { reader, name, samplesOf } of runs) {
    /** Episodes of groups whose record has not been read yet, by group and id. */
    const open = new Map<string, Map<string, Episode>>();
    const stride = numbers === "run" ? await episodesPerGroup(reader) : null;
    const episodes = reader.episodes()[Symbol.asyncIterator]();
    const readOne = async (): Promise<boolean> => {
      const next = await episodes.next();
      if (next.done === true) return false;
      const { id, groupId } = next.value;
      open.set(groupId, (open.get(groupId) ?? new Map<string, Episode>()).set(id, next.value));
      return true;
    };
    const numbered = async (
      members: readonly Episode[],
      { decision, reason, groupIndex: own = 0 }: Pick<GroupToExport, "decision" | "reason"> & { groupIndex?: number },
    ): Promise<GroupToExport> => {
      const groupIndex = stride === null ? counted.group++ : own;
      const rows = [];
      for (const episode of members) {
        const index = stride === null ? counted.episode++ : own * stride + episode.sampleIndex;
        rows.push({ episode, result: await samplesOf(episode), index });
      }
      return { run: name, groupIndex, decision, reason, episodes: rows };
    };
    try {
      for await (const { groupId, episodeIds, decision, reason, groupIndex } of reader.groups()) {
        while (episodeIds.some((id) => open.get(groupId)?.has(id) !== true) && (await readOne()));
        const found = open.get(groupId) ?? new Map<string, Episode>();
        open.delete(groupId);
        const members = episodeIds.map((id) => {
          const episode = found.get(id);
          if (episode !== undefined) return episode;
          throw new Error(
            `Cannot export group "${groupId}" of run "${reader.location}": its episode "${id}" is not in the folder.`,
          );
        });
        yield await numbered(members, { decision, reason, groupIndex });
        // Episodes that were replaced, or cancelled at the group's time limit.
        const others = [...found.values()].filter(({ id }) => !episodeIds.includes(id));
        const because = "it consists of other episodes";
        if (others.length > 0) yield await numbered(others, { decision: "dropped", reason: because });
      }
      while (await readOne());
    } finally {
      await episodes.return?.();
    }
    for (const members of open.values()) {
      yield await numbered([...members.values()], { decision: "undecided", reason: null });
    }
  }
}

/**
 * Number of episode numbers that a group of the run reserves: its size plus the replacements that
 * it may run.
 */
async function episodesPerGroup(reader: RunFolder): Promise<number> {
  const { configuration } = runFacts(await reader.manifest());
  const number = (key: string): number => Number(configuration?.get(key) ?? 0);
  return (number("group-size") || 1) + number("replacements");
}
