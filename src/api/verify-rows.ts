// verifyRows(): proves that rows hold what was sampled. One pass over the file; each episode that a
// row names is read at its place in the run, and only the last few are held.

import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { type ExpectedEpisode, expectedOf, type RowClaim, type RowFault, type RowKind } from "../export/check-rows.ts";
import { readRows, type RowFields } from "../export/read-rows.ts";
import { kindOfRow } from "../export/row-kinds.ts";
import { EpisodeFiles, openRunFolder, runFacts, type RunFolder } from "../store/index.ts";
import { readRecordedEpisode } from "../store/recorded-episode.ts";
import type { CallOptions } from "./options.ts";

/** Options of {@link verifyRows}: the flags of the command `verify-rows` in camelCase. */
export type VerifyRowsOptions = Pick<CallOptions, "cwd" | "signal" | "drain"> & {
  /** File of rows: JSON lines, or Parquet if its name ends in ".parquet". */
  readonly file: string;
  /** Folders of the runs whose rows these are, at least one. */
  readonly run: string | readonly string[];
  /** True: a sample of the runs that is in no row is reported, too. @default false */
  readonly complete?: boolean;
  /** Receives every fault, synchronously. @default the first ones are in the result */
  readonly onFault?: (fault: RowsFault) => void;
};

export const rowsFaultKinds = ["malformed", "foreign", "changed", "duplicated", "missing", "record"] as const;

/** A row that does not hold what was sampled, or a sample without a row. */
export type RowsFault = {
  /**
   * "malformed": it cannot be read as a row. "foreign": no run has its episode, or its turns have
   * other digests there. "changed": a value is not the recorded one. "duplicated": an earlier row
   * holds the same sample. "missing": no row holds a sample of the run. "record": the run folder
   * itself was changed, so that it proves nothing.
   */
  readonly kind: (typeof rowsFaultKinds)[number];
  /** Line of the file, in Parquet the number of the row; `null` for a missing sample. */
  readonly line: number | null;
  /** `<episode id>/<branch>`, or the episode's id if the row holds all of it; `null` if it names none. */
  readonly row: string | null;
  readonly turn: number | null;
  /** Place in all tokens of the sample. */
  readonly token: number | null;
  /** A sentence. */
  readonly message: string;
};

export type VerifyRowsResult = {
  /** Format of the rows; `null` for a file without rows. */
  readonly format: string | null;
  readonly rows: number;
  /** Samples, or episodes of formats with a row for each, that were compared. */
  readonly compared: number;
  /** Tokens of these samples, shown ones included. */
  readonly tokens: number;
  /** False: rows hold text, so that only their digests were compared. */
  readonly hasTokens: boolean;
  readonly faultCount: number;
  /** The first 100. */
  readonly faults: readonly RowsFault[];
};

const mostFaults = 100;
/** Episodes whose tokens are held: a group of rows comes together. */
const mostHeld = 8;

/** Facts of an episode that are held for all of a run. */
type Known = {
  readonly place: Parameters<EpisodeFiles["line"]>[1];
  readonly groupId: string;
  /** Number of samples that its record has. */
  readonly samples: number;
  /** Branches that rows held; `null`: a row held the whole episode. */
  seen: Set<number> | null | undefined;
  /** Pairs of rows of preferences, in which an episode may occur several times. */
  pairs?: Set<string>;
};

class VerifiedRun {
  readonly name: string;
  readonly episodes = new Map<string, Known>();
  readonly keptGroups = new Set<string>();
  mayMask = false;
  mayDrop = false;
  readonly #folder: string;
  readonly #reader: RunFolder;
  readonly #files: EpisodeFiles;
  readonly #held = new Map<string, ExpectedEpisode>();

  constructor(folder: string) {
    this.#folder = folder;
    this.name = basename(folder);
    this.#reader = openRunFolder(folder);
    this.#files = new EpisodeFiles(folder, { readsAhead: true });
  }

  async open(): Promise<this> {
    const { configuration } = runFacts(await this.#reader.manifest());
    const policy = configuration?.get("fault-policy");
    this.mayMask = policy === "mask";
    this.mayDrop = policy === "drop";
    for await (const { id, place, groupId, samples } of this.#reader.summaries()) {
      this.episodes.set(id, { place, groupId, samples, seen: undefined });
    }
    for await (const { groupId, decision } of this.#reader.groups()) {
      if (decision === "kept") this.keptGroups.add(groupId);
    }
    return this;
  }

  async expected(id: string): Promise<ExpectedEpisode> {
    const held = this.#held.get(id);
    if (held !== undefined) return held;
    const { place } = this.episodes.get(id)!;
    const line = await this.#files.line(id, place);
    const record = readRecordedEpisode(line, `episode "${id}" of run "${this.#folder}"`);
    if (record.id !== id) {
      throw new ConfigurationError(
        `Cannot read run "${this.#folder}": its index names episode "${id}" where "${record.id}" is stored; restore the folder from a copy.`,
      );
    }
    const expected = expectedOf(record);
    const [oldest] = this.#held.keys();
    if (this.#held.size >= mostHeld && oldest !== undefined) this.#held.delete(oldest);
    this.#held.set(id, expected);
    return expected;
  }

  close(): Promise<void> {
    return this.#files.close();
  }
}

/** The public function of this name: `functions.ts`. */
export async function verifyRows(options: VerifyRowsOptions): Promise<VerifyRowsResult | null> {
  const { complete = false, cwd = process.cwd(), drain, signal } = options;
  const path = resolve(cwd, options.file);
  if (!existsSync(path)) {
    throw new ConfigurationError(`Cannot verify "${options.file}": there is no such file; name a file of rows.`);
  }
  const folders = [options.run].flat();
  if (folders.length === 0) {
    throw new ConfigurationError(
      `Cannot verify "${options.file}": no run is named; give --run <folder>, the run whose rows these are.`,
    );
  }
  const distinct = new Set(folders.map((folder) => resolve(cwd, folder)));
  const runs = await Promise.all([...distinct].map((folder) => new VerifiedRun(folder).open()));
  const verification = new Verification(runs, options.onFault ?? (() => undefined));
  try {
    for await (const row of readRows(path)) {
      if (drain?.aborted === true || signal?.aborted === true) return null;
      await verification.check(row);
    }
    if (complete) await verification.checkComplete(options.file);
    const result = verification.result();
    if (result.rows === 0 && !complete) {
      throw new ConfigurationError(`Cannot verify "${options.file}": it has no rows; name a file that has some.`);
    }
    return result;
  } finally {
    for (const run of runs) await run.close();
  }
}

class Verification {
  readonly #runs: readonly VerifiedRun[];
  readonly #onFault: (fault: RowsFault) => void;
  readonly #faults: RowsFault[] = [];
  #faultCount = 0;
  #kind: RowKind | null = null;
  #rows = 0;
  #compared = 0;
  #tokens = 0;

  constructor(runs: readonly VerifiedRun[], onFault: (fault: RowsFault) => void) {
    this.#runs = runs;
    this.#onFault = onFault;
  }

  async check(row: RowFields): Promise<void> {
    this.#rows++;
    let claims: readonly RowClaim[];
    try {
      this.#kind ??= kindOfRow(row);
      if (this.#kind === null) throw new Error("it has the columns of no format; name a file that export wrote");
      claims = this.#kind.claims(row);
    } catch (error) {
      const message = `Line ${row.line} is not a row: ${messageOf(error)}.`;
      this.#report({ kind: "malformed", line: row.line, row: null, turn: null, token: null, message });
      return;
    }
    for (const claim of claims) await this.#checkClaim(claim, row.line);
  }

  async #checkClaim(claim: RowClaim, line: number): Promise<void> {
    const { episodeId, branch } = claim;
    const id = branch === null ? episodeId : `${episodeId}/${branch}`;
    const report = (kind: RowsFault["kind"], because: string, place: Partial<RowsFault> = {}): void =>
      this.#report({
        kind,
        line,
        row: id,
        turn: null,
        token: null,
        ...place,
        message: `Line ${line}, row "${id}": ${because}.`,
      });
    const run = await this.#runOf(claim);
    if (run === null) return report("foreign", "no run has its episode; name the run that it is of with --run");
    const expected = await run.expected(episodeId);
    this.#compared++;
    this.#tokens += tokensOf(expected, branch);
    if (expected.changedTurn !== null) {
      const turn = expected.changedTurn;
      return report("record", `the run's own record of turn ${turn} is not what its digest says`, { turn });
    }
    let fault: RowFault | null;
    try {
      fault = claim.compare(expected, run.mayMask);
    } catch (error) {
      // Facts of a row are any JSON, like lists that are nested too deep to be written again.
      return report("malformed", `it cannot be compared: ${messageOf(error)}`);
    }
    if (fault !== null) {
      const { turn, token, message, isForeign } = fault;
      return report(isForeign ? "foreign" : "changed", message, { turn, token });
    }
    const known = run.episodes.get(episodeId)!;
    if (claim.pair !== null) {
      if (known.pairs?.has(claim.pair) === true) return report("duplicated", "an earlier row holds the same pair");
      known.pairs = (known.pairs ?? new Set()).add(claim.pair);
    } else if (branch === null) {
      if (known.seen !== undefined) return report("duplicated", "an earlier row holds the same episode");
      known.seen = null;
    } else {
      if (known.seen === null || known.seen?.has(branch) === true) {
        return report("duplicated", "an earlier row holds the same sample");
      }
      known.seen = (known.seen ?? new Set()).add(branch);
    }
  }

  /** The run that has the episode, by the name in the row or, for equal ids, by the digest. */
  async #runOf({ run: name, episodeId, lastDigest }: RowClaim): Promise<VerifiedRun | null> {
    const named = this.#runs.filter((run) => name === null || this.#runs.length === 1 || run.name === basename(name));
    const holders = (named.length === 0 ? this.#runs : named).filter(({ episodes }) => episodes.has(episodeId));
    for (const run of holders.length > 1 ? holders : []) {
      const { record } = await run.expected(episodeId);
      if (lastDigest !== null && record.digests?.includes(lastDigest) === true) return run;
    }
    return holders[0] ?? null;
  }

  /** Reports samples that a whole export has and that no row held. */
  async checkComplete(file: string): Promise<void> {
    const kind = this.#kind;
    if (kind === null || !kind.hasTokens) {
      throw new ConfigurationError(
        `Cannot verify that "${file}" is complete: ${kind === null ? "it has no rows" : `rows of ${kind.format} do not hold every sample`}; remove --complete.`,
      );
    }
    for (const run of this.#runs) {
      for (const [id, { groupId, samples, seen }] of run.episodes) {
        if (samples === 0 || seen === null || seen?.size === samples) continue;
        if (kind.needsKeptGroups && !run.keptGroups.has(groupId)) continue;
        // Episodes that the policy removed have no row, and those that it kept are told apart by the environment only.
        if (run.mayDrop && seen === undefined) continue;
        for (const branch of (await run.expected(id)).samples.keys()) {
          if (seen?.has(branch) === true) continue;
          const row = `${id}/${branch}`;
          const message = `No row holds sample "${row}" of run "${run.name}".`;
          this.#report({ kind: "missing", line: null, row, turn: null, token: null, message });
        }
      }
    }
  }

  result(): VerifyRowsResult {
    return {
      format: this.#kind?.format ?? null,
      rows: this.#rows,
      compared: this.#compared,
      tokens: this.#tokens,
      hasTokens: this.#kind?.hasTokens ?? true,
      faultCount: this.#faultCount,
      faults: this.#faults,
    };
  }

  #report(fault: RowsFault): void {
    this.#faultCount++;
    if (this.#faults.length < mostFaults) this.#faults.push(fault);
    this.#onFault(fault);
  }
}

function tokensOf({ samples }: ExpectedEpisode, branch: number | null): number {
  let tokens = 0;
  for (const [at, { sample }] of samples) if (branch === null || branch === at) tokens += sample.tokens.length;
  return tokens;
}
