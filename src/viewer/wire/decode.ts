// A line of episodes.jsonl to an episode, both in a browser and in Node: plain JSON with packed
// arrays. Numbers of tool results lose their type here (1.0 is 1); the policy's own text of them is
// kept as well. Not the reader of runs: see `store/`.

import type { Episode, EpisodeSamples } from "../../core/index.ts";
import { episodeSamples } from "../../trajectories/index.ts";
import type { PlainJson, PlainObject, RunFacts, ShownEpisode, TokenText, TurnText } from "./wire.ts";

type Packed = { readonly dtype: string; readonly base64: string };
type StoredTurn = Omit<
  ShownEpisode["trajectory"]["turns"][number],
  "observationTokens" | "sampledTokens" | "logprobs"
> & {
  readonly observationTokens: Packed;
  readonly sampledTokens: Packed;
  readonly logprobs: Packed | null;
};
/** An episode as the file stores it: turns in a list of their own, events refer to them. */
export type StoredEpisode = Omit<ShownEpisode, "trajectory"> & { readonly turns: readonly StoredTurn[] };

/** Throws a plain error for a value that is not an episode. */
export function decodeEpisode(stored: StoredEpisode): ShownEpisode {
  const lists: readonly unknown[] = [stored.turns, stored.events, stored.messages];
  if (!lists.every((list) => Array.isArray(list)) || typeof stored.task !== "object") {
    throw new Error("Cannot read the episode: it has no turns, no events, no messages or no task.");
  }
  const turns = stored.turns.map((turn) => ({
    ...turn,
    observationTokens: unpackIds(turn.observationTokens),
    sampledTokens: unpackIds(turn.sampledTokens),
    logprobs: turn.logprobs === null ? null : new Float32Array(unpack(turn.logprobs, "<f4")),
  }));
  const events = stored.events.map((event) => {
    if (event.type !== "turn") return event;
    const turn = turns[event.turn as unknown as number];
    if (turn === undefined) throw new Error(`Cannot read the episode: there is no turn ${JSON.stringify(event.turn)}.`);
    return { ...event, turn };
  });
  return { ...stored, trajectory: { turns }, events };
}

const unpackIds = (packed: Packed): Uint32Array => new Uint32Array(unpack(packed, "<u4"));

function unpack({ dtype, base64 }: Packed, expected: string): ArrayBuffer {
  if (dtype !== expected) throw new Error(`Cannot read the episode: an array is packed as ${JSON.stringify(dtype)}.`);
  return base64Bytes(base64);
}

/** Bytes of base64, in the order of this machine: all machines with browsers are little-endian. */
export function base64Bytes(base64: string): ArrayBuffer {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native !== undefined) return native(base64).buffer;
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes.buffer;
}

/** Token text in transit: a text, and its lengths packed. */
export type PackedText = { readonly text: string; readonly lengths: string };

export function decodeText(
  turns: readonly { readonly observation: PackedText; readonly action: PackedText }[],
): TurnText[] {
  const decode = ({ text, lengths }: PackedText): TokenText => ({
    text,
    lengths: new Uint16Array(base64Bytes(lengths)),
  });
  return turns.map(({ observation, action }) => ({ observation: decode(observation), action: decode(action) }));
}

/**
 * The training rows, the tokens in none of them, and a violation in either; `null` if all is
 * correct.
 */
export type ShownSamples = EpisodeSamples & { readonly violation: string | null };

/** Made by the functions that make the rows of every export, which check that no token is lost or trained twice. */
export function samplesOf(shown: ShownEpisode): ShownSamples {
  try {
    // The functions read only turns and types of events, which are the same in both.
    return { ...episodeSamples(shown as unknown as Episode), violation: null };
  } catch (error) {
    return { samples: [], dropped: [], violation: error instanceof Error ? error.message : String(error) };
  }
}

/** An action that the task expects. */
export type ExpectedAction = { readonly name: string; readonly arguments: PlainObject };

/**
 * Expected actions in a grade or in `info`: in our format, τ-bench's or τ²-bench's. `null` if the
 * environment gives none.
 */
export function expectedActions({
  grade,
  info,
}: Pick<ShownEpisode, "grade" | "info">): readonly ExpectedAction[] | null {
  const found = grade === null ? null : readActions(grade.info["expected_actions"]);
  if (found !== null) return found;
  const rewardInfo = asObject(grade?.info["reward_info"] ?? info["reward_info"]);
  const checks = asList(rewardInfo?.["action_checks"]);
  if (checks !== null) return readActions(checks.map((check) => asObject(check)?.["action"] ?? null));
  return readActions(rewardInfo?.["actions"]) ?? readActions(asObject(info["task"])?.["actions"]);
}

function readActions(value: PlainJson | undefined): readonly ExpectedAction[] | null {
  const list = asList(value);
  if (list === null) return null;
  const actions: ExpectedAction[] = [];
  for (const one of list) {
    const action = asObject(one);
    const name = action?.["name"];
    if (typeof name !== "string") return null;
    actions.push({ name, arguments: asObject(action?.["arguments"] ?? action?.["kwargs"]) ?? {} });
  }
  return actions;
}

/** A record that differs from the expected state. */
export type StateDifference = {
  readonly record: string;
  readonly expected: string | null;
  readonly found: string | null;
};

/**
 * Names of facts that another tool's file does not record of the episode; `null` for an episode of
 * ours.
 */
export function notRecorded({ info }: Pick<ShownEpisode, "info">, { kind }: Pick<RunFacts, "kind">): string[] | null {
  if (kind !== "file") return null;
  return (asList(info["not_recorded"]) ?? []).filter((name) => typeof name === "string");
}

/**
 * Differences of the final state, read like {@link expectedActions}; `null` if the environment
 * gives none.
 */
export function stateDifference({ grade }: Pick<ShownEpisode, "grade">): readonly StateDifference[] | null {
  const list = asList(grade?.info["state_difference"]);
  if (list === null) return null;
  const text = (part: PlainJson | undefined): string | null => (typeof part === "string" ? part : null);
  return list.flatMap((one) => {
    const part = asObject(one);
    const record = text(part?.["record"]);
    return record === null ? [] : [{ record, expected: text(part?.["expected"]), found: text(part?.["found"]) }];
  });
}

function asList(value: PlainJson | undefined): readonly PlainJson[] | null {
  return Array.isArray(value) ? (value as readonly PlainJson[]) : null;
}

function asObject(value: PlainJson | undefined): PlainObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as PlainObject) : null;
}
