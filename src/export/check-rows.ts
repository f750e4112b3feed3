// Exported rows against the record of their run. Written independently of the exporters: a row is
// read as its trainer reads it, and each of its numbers is compared with the turns that the run
// recorded, token by token.

import type { Sample } from "../core/index.ts";
import { changedTurn, type RecordedEpisode } from "../store/recorded-episode.ts";
import { uncheckedSamples, untrainedTokens } from "../trajectories/index.ts";
import type { RowFields } from "./read-rows.ts";
import { episodeDigests, sampleDigests, type TurnDigest } from "./samples.ts";
import { untrainedTurns, withAncestors } from "./verifiers.ts";

/** An episode as its run recorded it. */
export type ExpectedEpisode = {
  readonly record: RecordedEpisode;
  readonly samples: ReadonlyMap<number, ExpectedSample>;
  readonly dropped: ReadonlySet<number>;
  /** A turn of the record that is not what its digest says; `null` if all are. */
  readonly changedTurn: number | null;
};

type ExpectedSample = { readonly sample: Sample; readonly digests: readonly TurnDigest[] };

export function expectedOf(record: RecordedEpisode): ExpectedEpisode {
  const { samples, dropped } = uncheckedSamples(record);
  return {
    record,
    samples: new Map(
      samples.map((sample) => [sample.branch, { sample, digests: sampleDigests(sample, record.trajectory) }]),
    ),
    dropped: untrainedTurns(record, dropped),
    changedTurn: changedTurn(record),
  };
}

/** A difference between a row and the record. */
export type RowFault = {
  /** Turn of the episode; `null` if it is about the whole row. */
  readonly turn: number | null;
  /** Place in all tokens of the sample; `null` if it is not about one token. */
  readonly token: number | null;
  /** A clause without its end, like "id 5 where the policy sampled 6 (token 7, turn 1)". */
  readonly message: string;
  /** True: no digest of the row is that of the record. */
  readonly isForeign: boolean;
};

/** One sample, or one episode, that a row states. */
export type RowClaim = {
  readonly episodeId: string;
  /** Name of the run, if rows of several runs are in one file. */
  readonly run: string | null;
  /** `null`: all branches of the episode. */
  readonly branch: number | null;
  /** The pair that the row states, where an episode may be in several rows; `null` elsewhere. */
  readonly pair: string | null;
  /** Digest of the last turn, by which rows of equal ids of several runs are told apart. */
  readonly lastDigest: string | null;
  /** The first difference; `null` if there is none. `mayMask`: the run masked episodes whose failure was not the policy's. */
  readonly compare: (expected: ExpectedEpisode, mayMask: boolean) => RowFault | null;
};

export type RowKind = {
  readonly format: string;
  /** False: rows hold text, so only their digests can be compared. */
  readonly hasTokens: boolean;
  /** True: only kept groups are exported. */
  readonly needsKeptGroups: boolean;
  readonly claims: (row: RowFields) => readonly RowClaim[];
};

export type Numbers = ArrayLike<number>;

/** Arrays of a row, which begin at a token of the sample. */
export type Part =
  | { readonly type: "tokens"; readonly values: Numbers; readonly start: number; readonly isWhole: boolean }
  | { readonly type: "mask" | "labels"; readonly values: Numbers; readonly start: number }
  | {
      readonly type: "logprobs";
      readonly values: Numbers | null;
      readonly start: number;
      /** "trained": others have the value `none`. */
      readonly of: "sampled" | "trained";
      readonly none: number;
    };

export type Facts = Readonly<Record<string, unknown>>;

export function factsOf(value: unknown, name: string): Facts {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Facts;
  throw new Error(`its field "${name}" is not an object`);
}

export function listed(row: RowFields, name: string): Numbers {
  const numbers = row.numbers(name);
  if (numbers === null) throw new Error(`its field "${name}" is null`);
  return numbers;
}

/** Faults repeat the id of an episode, and must not hold the whole of a hostile row. */
const longestId = 4096;

export function nameOf(facts: Facts): Pick<RowClaim, "episodeId" | "run"> {
  const { episode_id: episodeId, run = null } = facts;
  if (typeof episodeId !== "string" || episodeId.length > longestId)
    throw new Error("it does not name its episode (episode_id)");
  return { episodeId, run: typeof run === "string" ? run : null };
}

export function digestList(facts: Facts): readonly Facts[] {
  const { turn_digests: digests } = facts;
  if (Array.isArray(digests)) return digests.map((one) => factsOf(one, "turn_digests"));
  throw new Error("it has no turn_digests; export the rows again");
}

function lastOf(digests: readonly Facts[]): string | null {
  const digest = digests.at(-1)?.["digest"];
  return typeof digest === "string" ? digest : null;
}

/** `other`: facts of the row that follow from the sample. */
export function sampleClaim(
  facts: Facts,
  parts: readonly Part[],
  other: (sample: Sample) => readonly (readonly [name: string, found: unknown, expected: unknown])[] = () => [],
): RowClaim {
  const { branch } = facts;
  if (typeof branch !== "number") throw new Error("it does not name its branch");
  const digests = digestList(facts);
  return {
    ...nameOf(facts),
    branch,
    pair: null,
    lastDigest: lastOf(digests),
    compare: (expected, mayMask) => {
      const found = expected.samples.get(branch);
      if (found === undefined) return whole(`the run trains no branch ${branch} of this episode`);
      const { sample, digests: recorded } = found;
      const foreign = foreignFault(digests, recorded);
      if (foreign !== null) return foreign;
      const isMasked = mayMask && parts.every((part) => isAllMasked(part));
      for (const part of parts) {
        const fault = compareTokens(part, found, isMasked);
        if (fault !== null) return fault;
      }
      const changed = digestFault(digests, recorded);
      if (changed !== null) return changed;
      const fact = other(sample).find(([, one, another]) => JSON.stringify(one) !== JSON.stringify(another));
      return fact === undefined ? null : whole(`its ${fact[0]} is not what the run recorded`);
    },
  };
}

function whole(message: string): RowFault {
  return { turn: null, token: null, message, isForeign: false };
}

/** No digest of the row is that of the record: the row is of another run. */
function foreignFault(found: readonly Facts[], recorded: readonly { readonly digest: string }[]): RowFault | null {
  const isForeign = recorded.length > 0 && recorded.every(({ digest }, at) => found[at]?.["digest"] !== digest);
  return isForeign ? { ...whole("it is not of this run: the digests of its turns are others"), isForeign } : null;
}

function digestFault(
  found: readonly Facts[],
  recorded: readonly { readonly turn: number; readonly digest: string }[],
): RowFault | null {
  if (found.length !== recorded.length) {
    return whole(`it has ${found.length} turn_digests, and the run recorded ${recorded.length} turns for it`);
  }
  for (const [at, one] of recorded.entries()) {
    if (JSON.stringify(sorted(found[at]!)) === JSON.stringify(sorted(one))) continue;
    const what = found[at]!["digest"] === one.digest ? "turn_digests" : "digest";
    return { ...whole(`its ${what} of turn ${one.turn} is not what the run recorded`), turn: one.turn };
  }
  return null;
}

function sorted(facts: object): readonly (readonly [string, unknown])[] {
  return Object.entries(facts).toSorted(([one], [other]) => (one < other ? -1 : 1));
}

function isAllMasked(part: Part): boolean {
  if (part.type === "mask") return !Array.prototype.includes.call(part.values, 1);
  return part.type !== "labels" || Array.prototype.every.call(part.values, (label) => label === ignoredLabel);
}

const ignoredLabel = -100;

function compareTokens(part: Part, { sample, digests }: ExpectedSample, isMasked: boolean): RowFault | null {
  const { values, start } = part;
  const { tokens, sampledMask, lossMask, logprobs } = sample;
  const at = (token: number, message: string): RowFault => {
    const turn = digests.find(({ end }) => token < end)?.turn ?? null;
    return { ...whole(`${message} (token ${token}, turn ${turn ?? "none"})`), turn, token };
  };
  if (values === null) {
    return logprobs === null ? null : whole("it has no logprobs, and the run recorded them");
  }
  const end = start + values.length;
  const isShort = part.type === "tokens" && !part.isWhole ? end > tokens.length : end !== tokens.length;
  if (isShort) return whole(`its ${part.type} reach to ${end}, and the run recorded ${tokens.length} tokens for it`);
  switch (part.type) {
    case "tokens": {
      for (let place = 0; place < values.length; place++) {
        if (values[place] === tokens[start + place]) continue;
        const isSampled = sampledMask[start + place] === 1;
        const recorded = `the policy ${isSampled ? "sampled" : "was shown"} ${tokens[start + place]}`;
        return at(start + place, `id ${values[place]} where ${recorded}`);
      }
      return null;
    }
    case "mask":
    case "labels": {
      for (let place = 0; place < values.length; place++) {
        const token = start + place;
        const value = values[place];
        const isTrained = lossMask[token] === 1 && !isMasked;
        const expected = part.type === "mask" ? (isTrained ? 1 : 0) : isTrained ? tokens[token] : ignoredLabel;
        if (value === expected) continue;
        const why = sampledMask[token] === 1 ? "another row trains it, or none does" : "the policy did not sample it";
        const fault = part.type === "labels" && isTrained && value !== ignoredLabel ? `label ${value}` : null;
        return at(token, fault ?? (isTrained ? "outside the loss, and sampled for it" : `in the loss, but ${why}`));
      }
      return null;
    }
    case "logprobs": {
      if (logprobs === null) return whole("it has logprobs, and the run recorded none for some turn");
      const counted = part.of === "sampled" ? sampledMask : lossMask;
      for (let place = 0; place < values.length; place++) {
        const token = start + place;
        const expected = counted[token] === 1 && !(isMasked && part.of === "trained") ? logprobs[token]! : part.none;
        const value = Math.fround(values[place]!);
        if (value === expected || (Number.isNaN(value) && Number.isNaN(expected))) continue;
        return at(token, `logprob ${values[place]} where the engine reported ${expected}`);
      }
      return null;
    }
    default:
      return part satisfies never;
  }
}

/** Rows whose tokens are split where the first action begins. */
export function splitClaim(
  row: RowFields,
  facts: Facts,
  names: { readonly prompt: string; readonly response: string; readonly mask: string; readonly logprobs: string },
): RowClaim {
  const prompt = listed(row, names.prompt);
  const start = prompt.length;
  return sampleClaim(
    facts,
    [
      { type: "tokens", values: prompt, start: 0, isWhole: false },
      { type: "tokens", values: listed(row, names.response), start, isWhole: true },
      { type: "mask", values: listed(row, names.mask), start },
      { type: "logprobs", values: row.numbers(names.logprobs), start, of: "sampled", none: 0 },
    ],
    spanFacts(facts),
  );
}

export function spanFacts(facts: Facts): Parameters<typeof sampleClaim>[2] {
  return ({ weightRanges }) => [
    [
      "weight_spans",
      facts["weight_spans"],
      weightRanges.map(({ start, end, dispatch, reply }) => ({ start, end, dispatch, reply })),
    ],
  ];
}

/** A claim of a row of text, which covers all turns of an episode. */
export function textClaim(named: Pick<RowClaim, "episodeId" | "run">, digests: readonly Facts[]): RowClaim {
  return {
    ...named,
    branch: null,
    pair: null,
    lastDigest: lastOf(digests),
    compare: ({ record }) => {
      const recorded = episodeDigests(record);
      return foreignFault(digests, recorded) ?? digestFault(digests, recorded);
    },
  };
}

type Node = {
  readonly sampled: unknown;
  readonly token_ids: unknown;
  readonly mask: unknown;
  readonly logprobs: unknown;
};

/** A tree of nodes, one sampled node for each turn that is trained or precedes one. */
export function treeClaim(row: RowFields): RowClaim {
  const traces = row.value("traces");
  if (!Array.isArray(traces) || traces.length !== 1) throw new Error("it has not exactly one trace");
  const trace = factsOf(traces[0], "traces");
  const facts = factsOf(trace["info"], "info");
  const digests = digestList(facts);
  if (!Array.isArray(trace["nodes"])) throw new Error("its trace has no nodes");
  const all = trace["nodes"].map((node) => factsOf(node, "nodes") as Node);
  const nodes = all.filter(({ sampled }) => sampled === true);
  const hasOtherTokens = all.some((node) => node.sampled !== true && !hasNoTokens(node));
  return {
    ...nameOf(facts),
    branch: null,
    pair: null,
    lastDigest: lastOf(digests),
    compare: ({ record, dropped }, mayMask) => {
      const recorded = episodeDigests(record);
      const foreign = foreignFault(digests, recorded);
      if (foreign !== null) return foreign;
      const needed = withAncestors(record.trajectory.turns, dropped);
      const turns = record.trajectory.turns.filter(({ index }) => needed.has(index));
      if (hasOtherTokens) return whole("it has tokens in a node that the policy did not sample");
      if (mayMask && nodes.length === 0) return digestFault(digests, recorded);
      if (turns.length !== nodes.length) {
        return whole(`it has ${nodes.length} sampled nodes, and the run recorded ${turns.length} turns for it`);
      }
      for (const [at, turn] of turns.entries()) {
        const { index, observationTokens, sampledTokens, logprobs } = turn;
        const reasons = untrainedTokens(turn);
        const masks = Array.from(
          sampledTokens,
          (_, token) => !dropped.has(index) && (reasons?.[token] ?? null) === null,
        );
        const { token_ids, mask, logprobs: found } = nodes[at]!;
        const lists: readonly (readonly [name: string, found: unknown, expected: readonly unknown[]])[] = [
          ["id", token_ids, [...observationTokens, ...sampledTokens]],
          ["mask", mask, [...Array.from(observationTokens, () => false), ...masks]],
          ["logprob", float32(found), [...(logprobs ?? []).filter((_, token) => masks[token])]],
        ];
        for (const [name, one, another] of lists) {
          const place = firstDifference(one, another);
          if (place === null) continue;
          const token = name === "logprob" ? observationTokens.length + place : place;
          const values = `${JSON.stringify((one as unknown[] | null)?.[place])}, and the run recorded ${JSON.stringify(another[place])}`;
          return { ...whole(`${name} ${values} (token ${token} of the node of turn ${index})`), turn: index, token };
        }
      }
      return digestFault(digests, recorded);
    },
  };
}

function hasNoTokens({ token_ids, mask, logprobs }: Node): boolean {
  return [token_ids, mask, logprobs].every((list) => Array.isArray(list) && list.length === 0);
}

function float32(values: unknown): unknown {
  if (!Array.isArray(values)) return null;
  return values.map((value: unknown) => (typeof value === "number" ? Math.fround(value) : value));
}

function firstDifference(found: unknown, expected: readonly unknown[]): number | null {
  if (!Array.isArray(found)) return 0;
  const length = Math.max(found.length, expected.length);
  for (let place = 0; place < length; place++) if (found[place] !== expected[place]) return place;
  return null;
}
