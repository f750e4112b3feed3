// The folder of a training: train.json (its settings), metrics.csv, pass-rate.svg, the outcomes of
// evaluations, and checkpoints that other programs can load and from which --resume continues. A
// checkpoint is written under another name and renamed when it is complete, so a run that is killed
// never leaves half of one.

import { existsSync } from "node:fs";
import { appendFile, copyFile, mkdir, readdir, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

import { ConfigurationError, messageOf } from "../core/index.ts";
import { anyNames } from "../lib/any-names.ts";
import { systemCode } from "../lib/system-error.ts";
import type { TaskOutcome } from "./comparison.ts";
import type { LearnerState, StepMetrics } from "./policy-learner.ts";
import {
  type Checkpoint,
  type OptimizerState,
  readCheckpoint,
  readSafetensors,
  writeCheckpoint,
  writeSafetensors,
} from "./model/index.ts";
import { readRegular } from "../system/regular-file.ts";

/** Progress of a training at a checkpoint, apart from weights and moments. */
export type TrainingProgressSaved = {
  readonly folder: string;
  readonly state: LearnerState;
  /** Time of all processes together. */
  readonly elapsedMs: number;
};

/** A checkpoint of a training of the embedded model, to continue from. */
export type SavedTraining = TrainingProgressSaved & {
  readonly checkpoint: Checkpoint;
  readonly optimizer: OptimizerState;
};

/** training.json of a checkpoint: the progress of the training, apart from weights and moments. */
const progressSchema = z.object({
  format: z.literal(1),
  /** Updates that AdamW has made, for a trainer that does not keep them itself. */
  optimizerStep: z.number().default(0),
  step: z.number(),
  groups: z.number(),
  liveShare: z.number(),
  liveShares: anyNames(z.number()),
  elapsedMs: z.number(),
});

/** Number of older checkpoints kept, in case the disk fails while the newest is written. */
const kept = 2;
const modelFiles = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"];

type TrainingToSave = Omit<SavedTraining, "folder"> & { readonly modelFolder: string; readonly endTokenId: number };

/** Resolves with the checkpoint's folder. Leaves no part of one that could not be written. */
export async function saveTraining(run: string, saved: TrainingToSave): Promise<string> {
  return saveCheckpoint(run, saved.state.step, (folder) => writeTraining(folder, saved));
}

/**
 * Writes the checkpoint of a step with `write`, into a folder that gets its name when it is
 * complete; the newest ones are kept. Resolves with the checkpoint's folder.
 */
export async function saveCheckpoint(
  run: string,
  step: number,
  write: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(run, "checkpoints", `step-${String(step).padStart(6, "0")}`);
  const unfinished = `${folder}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  try {
    await mkdir(join(run, "checkpoints")).catch(ignoreExisting);
    await mkdir(unfinished);
    await write(unfinished);
    await rm(folder, { recursive: true, force: true });
    await rename(unfinished, folder);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true }).catch(() => undefined);
    throw error;
  }
  const older = (await checkpointsOf(run)).slice(0, -kept);
  for (const name of older) await rm(join(run, "checkpoints", name), { recursive: true, force: true });
  return folder;
}

function ignoreExisting(error: unknown): void {
  if (systemCode(error) !== "EEXIST") throw error;
}

async function writeTraining(unfinished: string, saved: TrainingToSave): Promise<void> {
  const { state, elapsedMs, checkpoint, optimizer } = saved;
  await writeCheckpoint(unfinished, checkpoint, { endTokenId: saved.endTokenId });
  const { step: optimizerStep, means, variances } = optimizer;
  const moments = Object.entries({ means, variances }).map(
    ([name, values]) => [name, { shape: [values.length], values }] as const,
  );
  await writeFile(join(unfinished, "optimizer.safetensors"), writeSafetensors(new Map(moments)));
  await writeProgress(unfinished, { state, elapsedMs, optimizerStep });
  for (const file of modelFiles.filter((name) => existsSync(join(saved.modelFolder, name)))) {
    await copyFile(join(saved.modelFolder, file), join(unfinished, file));
  }
}

/** Writes training.json of a checkpoint. `optimizerStep`: 0 if the trainer keeps it itself. */
export async function writeProgress(
  folder: string,
  { state, elapsedMs, optimizerStep = 0 }: Omit<TrainingProgressSaved, "folder"> & { readonly optimizerStep?: number },
): Promise<void> {
  const progress: z.infer<typeof progressSchema> = {
    format: 1,
    optimizerStep,
    ...state,
    elapsedMs: Math.round(elapsedMs),
  };
  await writeFile(join(folder, "training.json"), `${JSON.stringify(progress, null, 2)}\n`);
}

/**
 * The last complete checkpoint of the embedded model; `null` if the training ended before its first
 * step. Rejects with a `ConfigurationError` for one that is damaged.
 */
export async function loadTraining(run: string): Promise<SavedTraining | null> {
  const progress = await loadProgress(run);
  if (progress === null) return null;
  const { folder, state, elapsedMs, optimizerStep } = progress;
  const tensorFile = join(folder, "optimizer.safetensors");
  const tensors = readSafetensors(await readRegular(tensorFile), tensorFile);
  const moment = (tensor: string): Float32Array => tensors.get(tensor)?.values ?? new Float32Array(0);
  const optimizer = { step: optimizerStep, means: moment("means"), variances: moment("variances") };
  const checkpoint = await readCheckpoint(folder);
  return { folder, checkpoint, optimizer, state, elapsedMs };
}

/**
 * Progress at the last complete checkpoint, independent of the trainer; `null` if the training ended
 * before its first step.
 */
export async function loadProgress(
  run: string,
): Promise<(TrainingProgressSaved & { readonly optimizerStep: number }) | null> {
  const name = (await checkpointsOf(run)).at(-1);
  if (name === undefined) return null;
  const folder = join(run, "checkpoints", name);
  const path = join(folder, "training.json");
  const fields = await readFields(path);
  const { success, data, error } = progressSchema.safeParse(fields);
  if (!success) {
    const field = String(error.issues[0]?.path[0]);
    throw new ConfigurationError(
      field === "format"
        ? `Cannot resume "${run}": "${path}" has format ${JSON.stringify(fields[field] ?? null)}, but this version writes format 1; ` +
            "resume it with the version that started it (see train.json), or start a new run."
        : `Cannot resume "${run}": "${path}" has no number "${field}"; start a new run.`,
    );
  }
  const { format: _, optimizerStep, elapsedMs, ...state } = data;
  return { folder, state, elapsedMs, optimizerStep };
}

/** A JSON object from a file of the run. */
export async function readFields(path: string): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = JSON.parse(await readRegular(path, "utf8"));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read "${path}": ${messageOf(cause)}; name the folder of a training run.`, {
      cause,
    });
  }
  return (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
}

/** Names of complete checkpoints, oldest first. */
async function checkpointsOf(run: string): Promise<readonly string[]> {
  const names = await readdir(join(run, "checkpoints")).catch(() => []);
  return names.filter((name) => /^step-\d+$/.test(name)).toSorted();
}

/** One line per task. */
export async function writeOutcomes(path: string, outcomes: readonly TaskOutcome[]): Promise<void> {
  await replaceFile(path, outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join(""));
}

/** Resolves with `null` if the file does not exist or holds another number of tasks. */
export async function readOutcomes(path: string, count: number): Promise<readonly TaskOutcome[] | null> {
  const text = await readRegular(path, "utf8").catch(() => null);
  if (text === null) return null;
  try {
    const lines = text.split("\n").filter((line) => line !== "");
    return lines.length === count ? lines.map((line) => JSON.parse(line) as TaskOutcome) : null;
  } catch (cause) {
    throw new ConfigurationError(`Cannot resume: "${path}" is broken; remove it, and it is made again.`, { cause });
  }
}

/**
 * Appends a row; the first one brings the header and replaces the file. Leaves no part of one that
 * could not be written.
 */
export async function appendMetrics(path: string, row: StepMetrics, isFirst: boolean): Promise<void> {
  if (isFirst) return replaceFile(path, csvLine(Object.keys(row)) + csvLine(Object.values(row)));
  const before = await stat(path).catch(() => null);
  try {
    await appendFile(path, csvLine(Object.values(row)));
  } catch (error) {
    await truncate(path, before?.size ?? 0).catch(() => undefined);
    throw error;
  }
}

/** Writes a draft beside the file and renames it, so that a full disk leaves the old file. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  try {
    await writeFile(draft, text);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
}

/** Replaces the file: a resumed run drops the steps after its checkpoint. */
export async function writeMetrics(path: string, rows: readonly StepMetrics[]): Promise<void> {
  const header = rows.slice(0, 1).map((row) => csvLine(Object.keys(row)));
  await replaceFile(path, [...header, ...rows.map((row) => csvLine(Object.values(row)))].join(""));
}

function csvLine(values: readonly (string | number | null)[]): string {
  return `${values.map((value) => (value === null || Number.isNaN(value) ? "" : value)).join(",")}\n`;
}

/** Rejects with a `ConfigurationError` for a file that this package did not write. */
export async function readMetrics(path: string): Promise<readonly StepMetrics[]> {
  const [header = "", ...lines] = (await readRegular(path, "utf8")).split("\n").filter((line) => line !== "");
  const names = header.split(",");
  return lines.map((line, index) => {
    const cells = line.split(",");
    const values = cells.map((cell) => (cell === "" ? null : Number(cell)));
    if (cells.length !== names.length || values.some(Number.isNaN)) {
      throw new ConfigurationError(
        `Cannot read "${path}" at line ${index + 2}: it does not fit the header; remove the line, or start a new run.`,
      );
    }
    return Object.fromEntries(names.map((name, place) => [name, values[place]!]));
  });
}

export type CurvePoint = { readonly step: number; readonly rate: number };

/** Pass rates over steps. */
export type PassRateCurve = {
  readonly training: readonly CurvePoint[];
  /** Pass rates on held-out tasks. */
  readonly evaluations: readonly CurvePoint[];
  /** Pass rates on the same tasks at temperature 0. */
  readonly greedy: readonly CurvePoint[];
};

const size = { width: 720, height: 400, left: 56, right: 16, top: 40, bottom: 44 } as const;
const innerWidth = size.width - size.left - size.right;
const innerHeight = size.height - size.top - size.bottom;

/** Number of steps that a point of the smoothed line averages. */
const smoothing = 5;

/** One SVG without scripts, fonts or colours of its own theme, for a README or a paper. */
export function passRatePlot({ training, evaluations, greedy }: PassRateCurve, title: string): string {
  const last = Math.max(1, ...[...training, ...evaluations, ...greedy].map(({ step }) => step));
  const x = (step: number): string => (size.left + (step / last) * innerWidth).toFixed(1);
  const y = (rate: number): string => (size.top + (1 - rate) * innerHeight).toFixed(1);
  const place = ({ step, rate }: CurvePoint): string => `${x(step)},${y(rate)}`;
  const smooth = training.map(({ step }, index) => {
    const window = training.slice(Math.max(0, index - smoothing + 1), index + 1);
    return { step, rate: window.reduce((sum, { rate }) => sum + rate, 0) / window.length };
  });
  const grid = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    (rate) =>
      `<line x1="${size.left}" x2="${size.width - size.right}" y1="${y(rate)}" y2="${y(rate)}" stroke="#ddd"/>` +
      `<text x="${size.left - 8}" y="${y(rate)}" text-anchor="end" dominant-baseline="middle">${rate * 100} %</text>`,
  );
  const steps = ticks(last).map(
    (step) => `<text x="${x(step)}" y="${size.height - size.bottom + 18}" text-anchor="middle">${step}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="sans-serif" font-size="12" fill="#333">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="${size.left}" y="22" font-size="14">${escaped(title)}</text>`,
    ...grid,
    ...steps,
    `<text x="${size.left + innerWidth / 2}" y="${size.height - 8}" text-anchor="middle">step</text>`,
    ...training.map((point) => `<circle cx="${x(point.step)}" cy="${y(point.rate)}" r="2" fill="#9bb8d3"/>`),
    `<polyline fill="none" stroke="#2b6ca3" stroke-width="2" points="${smooth.map(place).join(" ")}"/>`,
    `<polyline fill="none" stroke="#b5532a" stroke-dasharray="4 3" points="${evaluations.map(place).join(" ")}"/>`,
    ...evaluations.map((point) => `<circle cx="${x(point.step)}" cy="${y(point.rate)}" r="4" fill="#b5532a"/>`),
    `<polyline fill="none" stroke="#3a7d44" stroke-dasharray="4 3" points="${greedy.map(place).join(" ")}"/>`,
    ...greedy.map((point) => `<circle cx="${x(point.step)}" cy="${y(point.rate)}" r="4" fill="#3a7d44"/>`),
    `<text x="${size.width - size.right}" y="22" text-anchor="end"><tspan fill="#2b6ca3">training, mean of ${smoothing} steps</tspan>  <tspan fill="#b5532a">held-out tasks</tspan>  <tspan fill="#3a7d44">greedily</tspan></text>`,
    "</svg>",
    "",
  ].join("\n");
}

/** At most six whole numbers from 0 to the last step. */
function ticks(last: number): number[] {
  const rough = last / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? last;
  const whole = Math.max(1, Math.round(step));
  return Array.from({ length: Math.floor(last / whole) + 1 }, (_, index) => index * whole);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
