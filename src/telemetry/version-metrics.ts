// Metrics of a run that a trainer reads beside its own curves: by the weight version that sampled,
// so that a change of the policy, of the cache or of the mismatch is seen at its version.

import { Counter, Gauge, type Registry } from "prom-client";
import type { EpisodeEvent, GroupRecord } from "../core/index.ts";

/** Difference between the sampler's logprobs and the trainer's, as a trainer measured it on its last batch. */
export type TrainerMismatch = {
  /** Version of the trainer's weights. */
  readonly version: string;
  /** Mean over the trained tokens of an estimate of KL(sampler || trainer), in nats. */
  readonly meanKl: number | null;
  /** Largest absolute difference between two logprobs of a token. */
  readonly largestDifference: number | null;
};

/** Versions with series of their own: the newest ones. */
const mostVersions = 16;
const kinds = ["prompt", "cached", "sampled"] as const;
/** Version of an engine that names none. */
const unnamed = "none";

export type VersionMetrics = {
  event(episodeId: string, event: EpisodeEvent): void;
  group(group: Pick<GroupRecord, "rewards">): void;
  mismatch(report: TrainerMismatch): void;
};

/** Adds the metrics to a registry; `prefix` begins their names. */
export function createVersionMetrics(registry: Registry, prefix: string): VersionMetrics {
  const registers = [registry];
  const tokens = new Counter({
    name: `${prefix}version_tokens_total`,
    help: "Tokens of engine calls by kind, and by the weight version that sampled.",
    labelNames: ["version", "kind"],
    registers,
  });
  const actions = new Counter({
    name: `${prefix}version_actions_total`,
    help: "Actions that were read, by the weight version that sampled them.",
    labelNames: ["version"],
    registers,
  });
  const errors = new Counter({
    name: `${prefix}version_format_errors_total`,
    help: "Actions with a format error, by the weight version that sampled them.",
    labelNames: ["version"],
    registers,
  });
  const signal = new Counter({
    name: `${prefix}groups_signal_total`,
    help: "Groups decided, by whether rewards of their episodes differ.",
    labelNames: ["signal"],
    registers,
  });
  const kl = new Gauge({
    name: `${prefix}trainer_mismatch_kl`,
    help: "Mean KL between sampler and trainer in nats, as the trainer reported it, by its weight version.",
    labelNames: ["version"],
    registers,
  });
  const largest = new Gauge({
    name: `${prefix}trainer_mismatch_largest`,
    help: "Largest difference of a logprob between sampler and trainer, as the trainer reported it, by its weight version.",
    labelNames: ["version"],
    registers,
  });

  /** Versions in the order in which they were seen last. */
  const versions = new Set<string>();
  const label = (version: string): string => {
    versions.delete(version);
    versions.add(version);
    const [oldest] = versions;
    if (versions.size > mostVersions && oldest !== undefined) {
      versions.delete(oldest);
      for (const kind of kinds) tokens.remove({ version: oldest, kind });
      for (const metric of [actions, errors, kl, largest]) metric.remove({ version: oldest });
    }
    return version;
  };
  /** Version of the last turn of each episode in flight. */
  const sampledBy = new Map<string, string>();

  return {
    event(episodeId, event) {
      if (event.type === "turn") {
        const last = event.turn.weightSpans.at(-1);
        const version = label(last?.reply ?? last?.dispatch ?? unnamed);
        sampledBy.set(episodeId, version);
        const { promptTokens, completionTokens, cachedTokens } = event.usage;
        tokens.inc({ version, kind: "prompt" }, promptTokens);
        tokens.inc({ version, kind: "sampled" }, completionTokens);
        // An absent count is not zero: the hit rate of such an engine is not known.
        if (cachedTokens !== null) tokens.inc({ version, kind: "cached" }, cachedTokens);
      } else if (event.type === "decision" || event.type === "exchange") {
        const version = sampledBy.get(episodeId);
        if (version === undefined) return;
        const { problems } = event.type === "decision" ? event.decision : event.action;
        actions.inc({ version: label(version) });
        errors.inc({ version }, problems.length > 0 ? 1 : 0);
      } else if (event.type === "episode-end") {
        sampledBy.delete(episodeId);
      }
    },
    group({ rewards }) {
      const graded = rewards.filter((reward) => reward !== null);
      const differ = graded.some((reward) => reward !== graded[0]);
      signal.inc({ signal: differ ? "yes" : "no" });
    },
    mismatch({ version, meanKl, largestDifference }) {
      label(version);
      if (meanKl !== null) kl.set({ version }, meanKl);
      if (largestDifference !== null) largest.set({ version }, largestDifference);
    },
  };
}
