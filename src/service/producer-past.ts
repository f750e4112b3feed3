// What the log and the store say of producers that an earlier process had. A batch whose groups the store does not have as
// kept was handed over all the same: it was on disk before anybody got it, so its groups are recorded now.

import type { Episode, GroupRecord } from "../core/index.ts";
import type { BegunGroup, EarlierProduction } from "../rollout/index.ts";
import { openGroup } from "./open-group.ts";
import type { ProducerWorld } from "./producer-groups.ts";
import type { Batch, ProducerPast } from "./producer-job.ts";
import { groupRequestOf, type ProducerRequest } from "./producer-request.ts";
import type { LoggedRequest, SteerAction } from "./request-log.ts";

type LoggedProducer = Extract<LoggedRequest, { readonly type: "producer" }>;
/** "lapsed": paused, until its trainer is heard again. */
type State = EarlierProduction["state"] | "lapsed";

/** As the library changes it. */
export function nextState(state: State, action: SteerAction | "lapse"): State {
  if (state === "cancelled" || action === "cancel") return "cancelled";
  if (state === "draining" || action === "drain") return "draining";
  if (action === "lapse") return state === "running" ? "lapsed" : state;
  return action === "pause" ? "paused" : "running";
}

export class LoggedPast implements ProducerPast {
  readonly asked: LoggedProducer;
  readonly begun: BegunGroup[] = [];
  readonly numbers = new Map<string, number>();
  readonly batches: Batch[] = [];
  readonly versions: string[] = [];
  readonly missed: string[] = [];
  readonly decided = new Map<string, GroupRecord>();
  state: EarlierProduction["state"] = "running";
  hasLapsed = false;

  constructor(asked: LoggedProducer) {
    this.asked = asked;
  }

  steer(action: SteerAction | "lapse"): void {
    const next = nextState(this.hasLapsed ? "lapsed" : this.state, action);
    this.hasLapsed = next === "lapsed";
    this.state = next === "lapsed" ? "paused" : next;
    if (!this.hasLapsed) this.versions.push(...this.missed.splice(0));
  }

  /** As `ProducerJob.report`. */
  report(version: string, training: string | null): void {
    const own = (this.asked.body as { readonly training?: string | null } | null)?.training ?? null;
    if (own !== training) return;
    if (own !== null && this.hasLapsed) this.steer("continue");
    (this.hasLapsed ? this.missed : this.versions).push(version);
  }

  /** Records what was handed over and not recorded. */
  async repair(request: ProducerRequest, { parts, stage }: ProducerWorld): Promise<void> {
    const { producerId } = this.asked;
    const places = request.samples + request.groups.replacements;
    for (const { groupId } of this.batches.flatMap(({ groups }) => groups)) {
      if (this.decided.has(groupId)) continue;
      const groupIndex = this.numbers.get(groupId) ?? 0;
      const identity = { groupId, groupIndex, bodyHash: "", producerId };
      const { jobs, another } = openGroup(groupRequestOf(request, groupId), identity, parts);
      const found: Episode[] = [];
      for (let place = 0; place < places; place++) {
        const episode = await parts.archive.find(another(place).place.episodeId);
        if (episode !== null) found.push(episode);
      }
      const record: GroupRecord = {
        groupId,
        taskId: jobs[0]?.place.task.id ?? "",
        groupIndex,
        decision: "kept",
        reason: null,
        episodeIds: found.map(({ id }) => id),
        rewards: found.map(({ reward }) => reward),
      };
      await stage.record(record);
      this.decided.set(groupId, record);
    }
  }
}

/** `decided`: what the store has, in the order in which it was decided. */
export function readPasts(
  log: readonly LoggedRequest[],
  decided: ReadonlyMap<string, GroupRecord>,
): { readonly pasts: readonly LoggedPast[]; readonly versions: readonly string[] } {
  const pasts = new Map<string, LoggedPast>();
  const ownerOf = new Map<string, LoggedPast>();
  const versions: string[] = [];
  for (const entry of log) {
    if (entry.type === "weights") {
      versions.push(entry.version);
      // Those that were asked for later began with it.
      for (const past of pasts.values()) past.report(entry.version, entry.training ?? null);
    }
    if (entry.type === "producer") pasts.set(entry.producerId, new LoggedPast(entry));
    if (!("producerId" in entry)) continue;
    const past = pasts.get(entry.producerId);
    if (past === undefined) continue;
    if (entry.type === "steer") past.steer(entry.action);
    if (entry.type === "batch") past.batches[entry.number] = { groups: entry.groups, isLast: entry.isLast };
    if (entry.type === "begin") {
      const { groupId, taskIndex, isRequeued, version } = entry;
      past.begun.push({ groupId, taskIndex, isRequeued, version });
      past.numbers.set(groupId, entry.groupIndex);
      ownerOf.set(groupId, past);
    }
  }
  for (const [groupId, record] of decided) ownerOf.get(groupId)?.decided.set(groupId, record);
  return { pasts: [...pasts.values()], versions };
}
