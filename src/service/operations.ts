// What operations do with a call: find what it names, wait as long as it wants, gather what it asks for. Which operations there
// are is `routes.ts`.

import { withDeadline } from "../lib/deadline.ts";
import type { EpisodeJob } from "./episode-job.ts";
import type { EpisodeStage } from "./episode-stage.ts";
import type { GroupJob } from "./group-job.ts";
import type { ProducerDesk } from "./producer-desk.ts";
import type { ProducerJob } from "./producer-job.ts";
import type { RolloutDesk } from "./rollout-desk.ts";
import type { EndedEpisode, ServiceLimits, ServiceParts } from "./service-parts.ts";
import { ServiceRefusal } from "./service-refusal.ts";
import { answerEpisode } from "./wire/answers.ts";
import { readBody, waitQuery } from "./wire/requests.ts";

/** What an operation is called with. */
export type Call = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  /** Parsed JSON; `undefined` where the operation takes no body. */
  readonly body: unknown;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
};

export type ServiceState = {
  readonly desk: RolloutDesk;
  readonly producers: ProducerDesk;
  readonly stage: EpisodeStage;
  readonly parts: ServiceParts;
  readonly limits: ServiceLimits;
  /** Takes secrets out of whatever is answered. */
  readonly redact: (text: string) => string;
};

export function json({ redact }: ServiceState, value: unknown, status = 200): Response {
  return new Response(redact(JSON.stringify(value)), { status, headers: { "content-type": "application/json" } });
}

export function statusOf({ desk, parts }: ServiceState): "open" | "paused" | "closing" {
  if (desk.isClosing) return "closing";
  return parts.gate.isOpen ? "open" : "paused";
}

export function infoOf(state: ServiceState): unknown {
  const { stage, parts, limits } = state;
  const { environment, defaultSplit, formats } = parts;
  return {
    name: "trainable-agents",
    environment: environment.name,
    splits: Object.fromEntries(environment.splits.map((split) => [split, environment.taskset(split).size])),
    default_split: defaultSplit,
    formats: [...formats.keys()],
    status: statusOf(state),
    weight_version: state.producers.weightVersion,
    running: stage.running,
    waiting: stage.waiting,
    limits: {
      concurrency: limits.concurrency,
      max_waiting: limits.maxWaiting,
      max_body_bytes: limits.maxBodyBytes,
      max_wait_seconds: limits.maxWaitMs / 1000,
    },
  };
}

export function keyOf(headers: Headers): string | null {
  const key = headers.get("idempotency-key");
  if (key === null) return null;
  if (key.length >= 1 && key.length <= 255) return key;
  throw new ServiceRefusal("bad-request", "Cannot read the request: Idempotency-Key has 1 to 255 characters.");
}

export function waitOf(call: Call): number {
  return readBody(waitQuery, call.query.get("wait_seconds") ?? undefined);
}

export async function jobOf(desk: RolloutDesk, { params }: Call): Promise<EpisodeJob> {
  return (await desk.job(params["id"] ?? "")) ?? refuseUnknown("episode", params["id"]);
}

export async function groupOf(desk: RolloutDesk, { params }: Call): Promise<GroupJob> {
  return (await desk.group(params["id"] ?? "")) ?? refuseUnknown("group", params["id"]);
}

export async function producerOf({ producers }: ServiceState, { params }: Call): Promise<ProducerJob> {
  return (await producers.find(params["id"] ?? "")) ?? refuseUnknown("producer", params["id"]);
}

function refuseUnknown(what: string, id: string | undefined): never {
  throw new ServiceRefusal("not-found", `Cannot find the ${what} ${JSON.stringify(id)}: it was never asked for.`);
}

/** Waits until all have ended, the time is up, the client leaves or the service closes. */
export async function untilEnded(
  jobs: readonly EpisodeJob[],
  { seconds, call, state }: { readonly seconds: number; readonly call: Call; readonly state: ServiceState },
): Promise<void> {
  const ms = Math.ceil(Math.min(seconds * 1000, state.limits.maxWaitMs));
  if (ms <= 0) return;
  const untilAll = async (signal: AbortSignal): Promise<void> => {
    for (const job of jobs) while (job.status !== "ended" && !job.isCutOff) await job.changed(signal);
  };
  // Not `AbortSignal.any` with a timeout: Node may collect it, and then it never aborts.
  await withDeadline(untilAll, { timeoutMs: ms, signal: call.signal }).catch(() => undefined);
}

export async function samplesOf(
  jobs: readonly EpisodeJob[],
  call: Call,
  { desk, stage, parts }: ServiceState,
): Promise<unknown> {
  const names = [...parts.formats.keys()];
  const name = call.query.get("format") ?? names[0] ?? "";
  const format = parts.formats.get(name);
  if (format === undefined) {
    throw new ServiceRefusal(
      "bad-request",
      `Cannot write rows as ${JSON.stringify(name.slice(0, 64))}: there is ${names.join(", ")}.`,
    );
  }
  const open = jobs.find(({ status }) => status !== "ended");
  if (open !== undefined) {
    throw new ServiceRefusal(
      "not-ended",
      `Cannot give samples: episode "${open.place.episodeId}" is ${open.status}; wait for it with wait_seconds.`,
    );
  }
  const ended: EndedEpisode[] = [];
  for (const { place } of jobs) {
    const played = await stage.ended(place.episodeId);
    if (played !== null) ended.push(played);
  }
  const groupIndex = (await desk.group(jobs[0]?.place.groupId ?? ""))?.groupIndex ?? 0;
  return {
    format: name,
    episodes: jobs.map(answerEpisode),
    samples: format(ended, groupIndex),
    dropped_tokens: ended.flatMap(({ episode, result }) =>
      result.dropped.map(({ turn, count, reason }) => ({ episode_id: episode.id, turn, count, reason })),
    ),
  };
}
