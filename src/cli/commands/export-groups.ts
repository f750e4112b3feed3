// The groups of run folders, one at a time: a group is put together when the record that decided it is reached, so that only
// episodes of groups under way are held. Numbers of groups and episodes are counted over all runs.

import type { Episode, GroupRecord } from "../../core/index.ts";
import { episodeSamples } from "../../episodes/index.ts";
import type { GroupToExport } from "../../exporters/index.ts";
import type { RunReader } from "../../store/index.ts";

export type RunToExport = {
  readonly reader: RunReader;
  /** `null` when it is the only one. */
  readonly name: string | null;
};

/**
 * Decided groups in the order of their decisions, then what was not decided. Throws when a record cannot be read, and when an
 * episode's tokens are lost or would be trained twice.
 */
export async function* readExportGroups(runs: readonly RunToExport[]): AsyncGenerator<GroupToExport> {
  const numbers = { group: 0, episode: 0 };
  for (const run of runs) {
    const episodes = run.reader.episodes()[Symbol.asyncIterator]();
    const open = new Map<string, Episode>();
    const readOne = async (): Promise<boolean> => {
      const next = await episodes.next();
      if (next.done !== true) open.set(next.value.id, next.value);
      return next.done !== true;
    };
    try {
      for await (const record of run.reader.groups()) {
        while (record.episodeIds.some((id) => !open.has(id)) && (await readOne()));
        const members = record.episodeIds.map((id) => memberOf(record, { id, open, run }));
        for (const id of record.episodeIds) open.delete(id);
        yield groupOf(members, { run, numbers, decision: record.decision, reason: record.reason });
      }
      while (await readOne());
    } finally {
      await episodes.return?.();
    }
    for (const members of byGroup([...open.values()]).values())
      yield groupOf(members, { run, numbers, decision: "undecided", reason: null });
  }
}

function memberOf(
  record: GroupRecord,
  found: { readonly id: string; readonly open: ReadonlyMap<string, Episode>; readonly run: RunToExport },
): Episode {
  const episode = found.open.get(found.id);
  if (episode !== undefined) return episode;
  throw new Error(
    `Cannot export group "${record.groupId}" of run "${found.run.reader.location}": its episode "${found.id}" is not in the folder.`,
  );
}

function byGroup(episodes: readonly Episode[]): Map<string, Episode[]> {
  const groups = new Map<string, Episode[]>();
  for (const episode of episodes) {
    const members = groups.get(episode.groupId);
    if (members === undefined) groups.set(episode.groupId, [episode]);
    else members.push(episode);
  }
  return groups;
}

function groupOf(
  members: readonly Episode[],
  facts: Pick<GroupToExport, "decision" | "reason"> & {
    readonly run: RunToExport;
    readonly numbers: { group: number; episode: number };
  },
): GroupToExport {
  const { run, numbers, decision, reason } = facts;
  return {
    run: run.name,
    groupIndex: numbers.group++,
    decision,
    reason,
    episodes: members.map((episode) => ({ episode, result: episodeSamples(episode), index: numbers.episode++ })),
  };
}
