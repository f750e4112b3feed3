// An entry of the list of runs below a folder: first from the small files that describe a run, then
// its rates from its index. Files of other tools have no index, so theirs are read if they are
// small. Nothing here opens a run.

import { existsSync, readFileSync, type Stats, statSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { messageOf } from "../core/index.ts";
import { type ForeignFormat, openForeignFile, recogniseForeignFile } from "../foreign/index.ts";
import { isSuccess, rateInterval } from "../statistics/index.ts";
import { isRunInUse, runFiles, runFormat } from "../store/index.ts";
import { objectOf, textOf } from "./episode-store.ts";
import type { Found } from "./home-walk.ts";
import { readMetrics, trainingStatus, withInterval } from "./training.ts";
import type { HomeEntry, PlainJson, PlainObject } from "./wire/index.ts";

/** Largest files that are read for the list, in bytes: descriptions, indexes, logs of other tools. */
const mostFacts = 4 << 20;
const mostIndex = 64 << 20;
const mostLog = 16 << 20;
const curvePoints = 40;

/** Sizes and times of the files of an entry: the text changes whenever a file that it is read from does. */
export type Signature = {
  readonly text: string;
  readonly writtenMs: number;
  /** The file that describes the entry; `null` if there is none. */
  readonly first: Stats | null;
};

/** `null` if nothing is there any more. */
export function signatureOf({ path, kind, manifest }: Found): Signature | null {
  const found = signed[kind].map((name, at) =>
    at === 0 && manifest !== null ? manifest : (statSync(path + name, { throwIfNoEntry: false }) ?? null),
  );
  let [text, newest] = ["", 0];
  for (const one of found) {
    text += `${one?.size}:${one?.mtimeMs} `;
    newest = Math.max(newest, one?.mtimeMs ?? 0);
  }
  if (kind === "log" && newest === 0) return null;
  return { text, writtenMs: newest, first: found[0] ?? null };
}

/** Files whose changes change an entry, as ends of its path; the first is the one that describes it. */
const signed: Readonly<Record<Found["kind"], readonly string[]>> = {
  run: [sep + runFiles.manifest, sep + runFiles.index],
  training: ["train.json", "metrics.csv", "result.json"].map((name) => sep + name),
  log: [""],
  other: [sep + runFiles.manifest],
};

export type EntryFacts = {
  readonly entry: HomeEntry;
  /** True if more is in its larger files. */
  readonly hasMore: boolean;
};

/** The entry from its small files; `null` for a file that no tool wrote that is known. */
export async function readEntry(
  { path, kind }: Found,
  { key, signature: { writtenMs, first } }: { readonly key: string; readonly signature: Signature },
): Promise<EntryFacts | null> {
  const bare: HomeEntry = {
    key,
    kind: kind === "log" ? "file" : kind === "other" ? "run" : kind,
    name: basename(path),
    environment: null,
    policy: null,
    status: "done",
    isLive: false,
    startedMs: writtenMs,
    episodes: null,
    planned: null,
    passRate: null,
    interval: null,
    cost: null,
    curve: [],
    fault: null,
  };
  try {
    if (kind === "run") return { entry: await runEntry(bare, path, first), hasMore: true };
    if (kind === "other") throw new Error(`It is not a run of ours: ${foreignReason(path, first)}`);
    if (kind === "training") return { entry: await trainingEntry(bare, path), hasMore: true };
    const format = await logFormat(path);
    return format === null ? null : { entry: { ...bare, name: logName(path), environment: format }, hasMore: true };
  } catch (error) {
    // A file that cannot be read may be of any program.
    if (kind === "log") return null;
    return { entry: { ...bare, status: "unreadable", fault: messageOf(error) }, hasMore: false };
  }
}

/** The entry with what its larger files say. */
export async function readRates(entry: HomeEntry, path: string): Promise<HomeEntry> {
  try {
    if (entry.kind === "run") return { ...entry, ...indexRates(path) };
    return entry.kind === "training" ? { ...entry, ...curveOf(path) } : await logRates(entry, path);
  } catch (error) {
    return { ...entry, fault: messageOf(error) };
  }
}

/** `known`: the file as it was found a moment ago. */
function readSmall(file: string, most: number, known: Stats | null = null): string {
  const found = known ?? statSync(file);
  const { size } = found;
  if (!found.isFile()) throw new Error(`"${basename(file)}" is not a file.`);
  if (size > most) throw new Error(`"${basename(file)}" has ${size} bytes, and at most ${most} are read here.`);
  return readFileSync(file, "utf8");
}

function readFacts(folder: string, name: string, known: Stats | null = null): PlainObject {
  let text: string;
  try {
    text = readSmall(folder + sep + name, mostFacts, known);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new Error(`It has no "${name}": its process may just have begun, or was killed before it wrote one.`, {
      cause: error,
    });
  }
  let value: PlainJson;
  try {
    value = JSON.parse(text) as PlainJson;
  } catch (cause) {
    throw new Error(`"${name}" is not JSON: it is being written, or was cut.`, { cause });
  }
  const facts = objectOf(value);
  if (facts === null) throw new Error(`"${name}" holds no JSON object.`);
  return facts;
}

/** Why the run.json of a folder is not one of ours. */
function foreignReason(folder: string, known: Stats | null): string {
  let said: string;
  try {
    const { format = null } = readFacts(folder, runFiles.manifest, known);
    said = `its "${runFiles.manifest}" has ${format === null ? 'no "format"' : `format ${JSON.stringify(format).slice(0, 100)}`}`;
  } catch (error) {
    said = messageOf(error).replace(/\.$/, "");
  }
  return `${said}, and runs of this version have format ${runFormat}.`;
}

async function runEntry(bare: HomeEntry, folder: string, known: Stats | null): Promise<HomeEntry> {
  const facts = readFacts(folder, runFiles.manifest, known);
  const format = facts["format"] ?? null;
  if (format !== runFormat) {
    throw new Error(`It has format ${JSON.stringify(format)}, and this version reads format ${runFormat}.`);
  }
  const part = (name: string): PlainObject | null => objectOf(facts[name]);
  const [environment, model, totals, configuration] = ["environment", "model", "totals", "configuration"].map(part);
  const says = textOf(facts["status"]) ?? "unknown";
  const isLive = says === "running" && (await isLocked(folder));
  const named = [textOf(model?.["tokenizer"]), textOf(part("agent")?.["name"])].find((name) => name !== null);
  const engine = textOf(part("engine")?.["name"]);
  const started = Date.parse(textOf(facts["startedAt"]) ?? "");
  const [graded, passed] = [numberOf(totals?.["graded"]), numberOf(totals?.["passed"])];
  const [tasks, size] = [numberOf(environment?.["tasks"]), numberOf(configuration?.["group-size"])];
  const costs = ["agentCost", "userCost", "judgeCost"].map((name) => numberOf(totals?.[name]));
  // Written out: spreading the bare entry would take longer than everything above but the parsing.
  return {
    key: bare.key,
    kind: bare.kind,
    name: bare.name,
    interval: null,
    curve: [],
    fault: null,
    environment: joined(textOf(environment?.["name"]), textOf(environment?.["split"])),
    policy: joined(named ?? null, engine),
    status: says === "running" && !isLive ? "killed" : says,
    isLive,
    startedMs: Number.isNaN(started) ? bare.startedMs : started,
    episodes: numberOf(totals?.["episodesFinished"]),
    planned: configuration?.["groups"] === null && tasks !== null && size !== null ? tasks * size : null,
    passRate: graded !== null && graded > 0 && passed !== null ? passed / graded : null,
    cost: costs.reduce((sum, cost) => (sum === null || cost === null ? null : sum + cost), 0),
  };
}

async function isLocked(folder: string): Promise<boolean> {
  const lock = statSync(join(folder, runFiles.lock), { throwIfNoEntry: false });
  return lock !== undefined && lock.size < mostFacts && (await isRunInUse(folder).catch(() => false));
}

async function trainingEntry(bare: HomeEntry, folder: string): Promise<HomeEntry> {
  const facts = readFacts(folder, "train.json");
  const model = textOf(facts["model"]);
  const learning = objectOf(facts["learning"]);
  const { birthtimeMs, mtimeMs } = statSync(join(folder, "train.json"));
  return {
    ...bare,
    ...(await trainingStatus(folder)),
    environment: joined(textOf(facts["environment"]), textOf(facts["split"])),
    policy: joined(model === null ? null : basename(model), textOf(learning?.["algorithm"])),
    // Not every file system keeps the time of birth.
    startedMs: birthtimeMs > 0 ? birthtimeMs : mtimeMs,
  };
}

/** Episodes and rates of the lines of index.jsonl. */
function indexRates(folder: string): Partial<HomeEntry> {
  let text: string;
  try {
    text = readSmall(join(folder, runFiles.index), mostIndex);
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT";
    return isAbsent ? {} : { fault: `Its rates are those of ${runFiles.manifest}: ${messageOf(error)}` };
  }
  const tallies = new Tallies();
  for (const line of text.split("\n")) {
    try {
      const row = objectOf(JSON.parse(line) as PlainJson);
      const task = textOf(objectOf(row?.["task"])?.["id"]);
      if (row !== null && task !== null) tallies.add(task, numberOf(row["reward"]));
    } catch {
      // The last line is being written; a damaged one is reported where the run is opened.
    }
  }
  return tallies.rates();
}

/** Counts by task, as the page of a run does. */
class Tallies {
  readonly #tasks = new Map<string, { graded: number; passed: number }>();
  #episodes = 0;

  add(task: string, reward: number | null): void {
    this.#episodes++;
    if (reward === null) return;
    const tally = this.#tasks.get(task) ?? { graded: 0, passed: 0 };
    this.#tasks.set(task, tally);
    tally.graded++;
    if (isSuccess(reward)) tally.passed++;
  }

  rates(): Pick<HomeEntry, "episodes" | "passRate" | "interval"> {
    const shares = [...this.#tasks.values()].map(({ graded, passed }) => passed / graded);
    const passRate = shares.length === 0 ? null : shares.reduce((sum, share) => sum + share, 0) / shares.length;
    return { episodes: this.#episodes, passRate, interval: rateInterval(shares) };
  }
}

function curveOf(folder: string): Partial<HomeEntry> {
  const metrics = join(folder, "metrics.csv");
  const text = existsSync(metrics) ? readSmall(metrics, mostIndex) : "";
  const facts = readFacts(folder, "train.json");
  const steps = readMetrics(text);
  const values = steps.map((step) => step["pass_rate"] ?? null);
  const parts = Math.min(curvePoints, values.length);
  const curve = Array.from({ length: parts }, (_, part) => {
    const known = values
      .slice(Math.floor((part * values.length) / parts), Math.floor(((part + 1) * values.length) / parts))
      .filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0) / known.length;
  });
  const held = steps.findLast((step) => typeof step["held_out_pass_rate"] === "number");
  const last = held === undefined ? null : withInterval(held, objectOf(facts["learning"])?.["evalTasks"]);
  const [low = null, high = null] = [last?.["held_out_low"], last?.["held_out_high"]];
  return {
    curve,
    passRate: last?.["held_out_pass_rate"] ?? null,
    interval: low === null || high === null ? null : { low, high },
  };
}

/** A folder is one of τ²-bench, whose index and simulations are files of their own. */
async function logFormat(path: string): Promise<ForeignFormat | null> {
  return statSync(path).isDirectory() ? "tau2-bench" : recogniseForeignFile(path);
}

/** Names that every file of a tool has are told apart by their folder. */
function logName(path: string): string {
  const name = basename(path);
  return /^(?:results|traces)\.jsonl?$/.test(name) ? `${basename(dirname(path))}/${name}` : name;
}

async function logRates(entry: HomeEntry, path: string): Promise<HomeEntry> {
  const { size } = statSync(path);
  if (size > mostLog) {
    return { ...entry, fault: `It has ${Math.round(size / 1e6)} MB, and is read when it is opened.` };
  }
  const file = await openForeignFile(path, entry.name);
  if (file === null) return { ...entry, status: "unreadable", fault: "It is of no format that is known." };
  const tallies = new Tallies();
  const models = new Set<string>();
  let cost: number | null = 0;
  for await (const { taskId, reward, model, agentCost } of file.episodes()) {
    tallies.add(taskId, reward);
    if (model !== null && models.size < 3) models.add(model);
    cost = cost === null || agentCost === null ? null : cost + agentCost;
  }
  const environment = joined(file.title, file.format);
  return { ...entry, ...tallies.rates(), environment, policy: models.size === 0 ? null : [...models].join(", "), cost };
}

function joined(...parts: readonly (string | null)[]): string | null {
  const known = parts.filter((part) => part !== null && part !== "");
  return known.length === 0 ? null : known.join(" · ").slice(0, 200);
}

function numberOf(value: PlainJson | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
