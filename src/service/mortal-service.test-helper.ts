// A service whose process may die at any write, and its successor in the same folder: only data on
// disk survives. A death is a write that never returns, so no test waits for a clock.

import type { Episode, GroupRecord } from "../core/index.ts";
import type { LoggedRequest, RequestLog } from "./request-log.ts";
import { createTestService, type TestService, type TestServiceOptions } from "./service.test-helper.ts";

/** Data on disk. */
export type Disk = {
  readonly log: LoggedRequest[];
  readonly kept: Map<string, Episode>;
  readonly records: Map<string, GroupRecord>;
  readonly rows: Map<string, readonly string[]>;
};

export function emptyDisk(): Disk {
  return { log: [], kept: new Map(), records: new Map(), rows: new Map() };
}

export type Write =
  | { readonly to: "log"; readonly entry: LoggedRequest }
  | { readonly to: "episodes"; readonly id: string }
  | { readonly to: "groups"; readonly record: GroupRecord };

export type Life = TestService & {
  /** Kills the process: nothing that it does from now on reaches the disk or a client. */
  readonly die: () => void;
  readonly hasDied: () => boolean;
  /** Resolves when the process has died. */
  readonly dead: Promise<void>;
};

/**
 * `diesAt`: called at every write, and returns whether the process dies "before" or "after" it.
 * Default: never.
 */
export async function live(
  disk: Disk,
  options: TestServiceOptions & { readonly diesAt?: (write: Write) => "before" | "after" | null } = {},
): Promise<Life> {
  const { diesAt = () => null, parts, ...rest } = options;
  let isDead = false;
  let tell: () => void = () => undefined;
  const dead = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const die = (): void => {
    isDead = true;
    tell();
  };
  const write = async (what: Write, commit: () => void): Promise<void> => {
    const when = isDead ? "before" : diesAt(what);
    if (when === "before") die();
    // Files are written concurrently, and the log is the slower one: code that needs it on disk
    // first must wait for it.
    for (let tick = 0; tick < (what.to === "log" ? 3 : 1); tick++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (isDead) return new Promise(() => undefined);
    commit();
    if (when === null) return;
    die();
    return new Promise(() => undefined);
  };
  const requests: RequestLog = {
    append: (entry) => write({ to: "log", entry }, () => disk.log.push(structuredClone(entry))),
    close: async () => undefined,
  };
  const tested = createTestService({
    ...rest,
    requests,
    parts: {
      ...parts,
      archive: { find: async (id) => disk.kept.get(id) ?? null },
      store: {
        append: (episode) => write({ to: "episodes", id: episode.id }, () => disk.kept.set(episode.id, episode)),
        appendGroup: ({ group, sampleLines }) =>
          write({ to: "groups", record: group }, () => {
            if (disk.records.has(group.groupId)) throw new Error(`Group ${group.groupId} is decided twice.`);
            disk.rows.set(group.groupId, sampleLines);
            disk.records.set(group.groupId, group);
          }),
      },
    },
  });
  // The process may die while it records groups that an earlier one handed over.
  await Promise.race([tested.service.restore([...disk.log], { decided: new Map(disk.records) }), dead]);
  return { ...tested, die, hasDied: () => isDead, dead };
}
