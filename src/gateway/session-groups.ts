// Groups of sessions: sessions of one group name are compared, a given number at a time. This file
// knows which groups are open and which ids are taken; `sessions.ts` decides about full groups.

import { hash } from "node:crypto";
import type { Task } from "../core/index.ts";
import { groupIdOf } from "../rollout/index.ts";
import { GatewayError } from "./request.ts";

export type OpenGroup = {
  readonly id: string;
  readonly name: string;
  readonly groupIndex: number;
  readonly size: number;
  readonly task: Task;
  /** Number of places that sessions have taken. */
  places: number;
  /** Ids of ended sessions, whose episodes are in the store. */
  readonly ended: string[];
};

/** Facts about the group in a session's record. */
type GroupFacts = {
  readonly group: string;
  readonly group_name: string;
  readonly group_index: number;
  readonly group_size: number;
  readonly sample_index: number;
};

export class SessionGroups {
  readonly #open = new Map<string, OpenGroup>();
  /**
   * Number of groups begun under each name. Groups of a single session are not counted: their ids
   * are the session's, which the store has.
   */
  readonly #begun = new Map<string, number>();
  readonly #hasSession: (id: string) => Promise<boolean>;
  #next = 0;

  /** `hasSession`: resolves to true if a session of this id has ended. */
  constructor(hasSession: (id: string) => Promise<boolean>) {
    this.#hasSession = hasSession;
  }

  /** Open groups in the order in which they began. */
  get open(): readonly OpenGroup[] {
    return [...this.#open.values()];
  }

  get(id: string): OpenGroup | null {
    return this.#open.get(id) ?? null;
  }

  close(id: string): void {
    this.#open.delete(id);
  }

  /**
   * Takes a free place in a group of this name, or in the next one. Rejects with a `GatewayError`
   * for a group of another task. `sessionId`: the session that takes the place; a group named after
   * it is its own.
   */
  async join(
    name: string,
    { sessionId, task, size }: { readonly sessionId: string; readonly task: string; readonly size: number },
  ): Promise<{ readonly group: OpenGroup; readonly place: number }> {
    const free = new Set<string>();
    const taken = new Set<string>();
    for (let visit = 1; ;) {
      const id = groupIdOf({ id: name }, visit);
      const open = this.#open.get(id);
      if (open?.name === name && open.places < open.size) {
        checkTask(open, task);
        return { group: open, place: open.places++ };
      }
      if (open !== undefined || taken.has(id) || this.#hasBegun(id)) visit++;
      else if (name === sessionId || free.has(id)) {
        const group = this.#begin({ id, name, groupIndex: this.#next, size, task }, { isOwn: name === sessionId });
        return { group, place: group.places++ };
      }
      // A session of that id was a group of its own. Other sessions may have taken places in the
      // meantime, so the search starts again.
      else if (await this.#hasSession(id)) taken.add(id);
      else free.add(id);
    }
  }

  /**
   * Restores the group of a session that an earlier process opened; the session keeps its place.
   */
  restore(facts: GroupFacts, { sessionId, task }: { readonly sessionId: string; readonly task: string }): OpenGroup {
    const { group: id, group_name: name, group_index: groupIndex, group_size: size } = facts;
    const isOwn = name === sessionId;
    const group = this.#open.get(id) ?? this.#begin({ id, name, groupIndex, size, task }, { isOwn });
    group.places = Math.max(group.places, facts.sample_index + 1);
    return group;
  }

  /** Remembers the decided group of a session of an earlier process. */
  remember({ group, group_name: name, group_index: index }: GroupFacts, sessionId: string): void {
    this.#next = Math.max(this.#next, index + 1);
    if (name !== sessionId) this.#count(name, group);
  }

  #begin(
    { task, ...fields }: Pick<OpenGroup, "id" | "name" | "groupIndex" | "size"> & { readonly task: string },
    { isOwn }: { readonly isOwn: boolean },
  ): OpenGroup {
    const { id, name, groupIndex } = fields;
    const group: OpenGroup = { ...fields, task: taskOf(task, groupIndex), places: 0, ended: [] };
    this.#open.set(id, group);
    this.#next = Math.max(this.#next, groupIndex + 1);
    if (!isOwn) this.#count(name, id);
    return group;
  }

  #count(name: string, id: string): void {
    const visit = id === name ? 1 : Number(id.slice(name.length + 1));
    this.#begun.set(name, Math.max(visit, this.#begun.get(name) ?? 0));
  }

  /**
   * True if a group of this id began, either as the first of its name or as a later one of another
   * name.
   */
  #hasBegun(id: string): boolean {
    if (this.#begun.has(id)) return true;
    const [, name = "", visit = ""] = /^(.+)@(\d+)$/s.exec(id) ?? [];
    return Number(visit) > 1 && (this.#begun.get(name) ?? 0) >= Number(visit);
  }
}

function checkTask({ name, task }: OpenGroup, given: string): void {
  if (task.id === given) return;
  throw new GatewayError(
    "invalid-request",
    `Cannot open a session of task "${given}" in group "${name}": its sessions are of task "${task.id}", and rewards of different tasks are not compared.`,
    { param: "group" },
  );
}

export function taskOf(id: string, index: number): Task {
  const contentHash = hash("sha256", id);
  return { id, environment: "gateway", split: "gateway", index, contentHash, instruction: null, agenda: null };
}
