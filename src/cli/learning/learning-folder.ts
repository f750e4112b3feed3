// The folder of a training: train.json (what it is), metrics.csv, pass-rate.svg, the outcomes of evaluations, and checkpoints
// that others can load and that --resume goes on from. A checkpoint is made under another name and renamed when it is
// whole, so a run that is killed never leaves half of one.

import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "../../core/index.ts";
import type { LearnerState } from "../../learner/index.ts";
import {
  type Checkpoint,
  type OptimizerState,
  readCheckpoint,
  readSafetensors,
  writeCheckpoint,
  writeSafetensors,
} from "../../learner/model/index.ts";

/** What a checkpoint holds beside the model. */
export type TrainingProgress = {
  readonly state: LearnerState;
  /** Of all sittings together. */
  readonly elapsedMs: number;
};

export type SavedTraining = TrainingProgress & {
  readonly folder: string;
  readonly checkpoint: Checkpoint;
  readonly optimizer: OptimizerState;
};

/** Of training.json. */
const trainingFormat = 1;
/** Kept besides the newest, should its disk fail while it is written. */
const kept = 2;
const modelFiles = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"];

export async function saveTraining(
  run: string,
  saved: Omit<SavedTraining, "folder"> & { readonly modelFolder: string; readonly endTokenId: number },
): Promise<string> {
  const { state, elapsedMs, checkpoint, optimizer } = saved;
  const folder = join(run, "checkpoints", `step-${String(state.step).padStart(6, "0")}`);
  const unfinished = `${folder}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await writeCheckpoint(unfinished, checkpoint, { endTokenId: saved.endTokenId });
  const shape = [optimizer.means.length];
  const moments = { means: { shape, values: optimizer.means }, variances: { shape, values: optimizer.variances } };
  await writeFile(join(unfinished, "optimizer.safetensors"), writeSafetensors(new Map(Object.entries(moments))));
  const progress = {
    format: trainingFormat,
    optimizerStep: optimizer.step,
    ...state,
    elapsedMs: Math.round(elapsedMs),
  };
  await writeFile(join(unfinished, "training.json"), `${JSON.stringify(progress, null, 2)}\n`);
  for (const file of modelFiles) await copyIfThere(join(saved.modelFolder, file), join(unfinished, file));
  await rm(folder, { recursive: true, force: true });
  await rename(unfinished, folder);
  const older = (await checkpointsOf(run)).slice(0, -kept);
  for (const name of older) await rm(join(run, "checkpoints", name), { recursive: true, force: true });
  return folder;
}

/** The last whole checkpoint. Rejects with a `ConfigurationError` when there is none. */
export async function loadTraining(run: string): Promise<SavedTraining> {
  const name = (await checkpointsOf(run)).at(-1);
  if (name === undefined) {
    throw new ConfigurationError(
      `Cannot resume "${run}": it has no checkpoint; begin again without --resume, or name the folder of a training run.`,
    );
  }
  const folder = join(run, "checkpoints", name);
  const path = join(folder, "training.json");
  const fields = await readFields(path);
  if (fields["format"] !== trainingFormat) {
    throw new ConfigurationError(
      `Cannot resume "${run}": "${path}" has format ${JSON.stringify(fields["format"] ?? null)}, this version writes format ` +
        `${trainingFormat}; resume it with the version that began it (see train.json), or begin again.`,
    );
  }
  const number = (field: string): number => {
    const value = fields[field];
    if (typeof value === "number") return value;
    throw new ConfigurationError(`Cannot resume "${run}": "${path}" has no number "${field}"; begin again.`);
  };
  const tensorFile = join(folder, "optimizer.safetensors");
  const tensors = readSafetensors(await readFile(tensorFile), tensorFile);
  const moment = (tensor: string): Float32Array => tensors.get(tensor)?.values ?? new Float32Array(0);
  return {
    folder,
    checkpoint: await readCheckpoint(folder),
    optimizer: { step: number("optimizerStep"), means: moment("means"), variances: moment("variances") },
    state: { step: number("step"), groups: number("groups"), liveShare: number("liveShare") },
    elapsedMs: number("elapsedMs"),
  };
}

/** A JSON object from a file of the run. */
export async function readFields(path: string): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigurationError(`Cannot read "${path}": ${reason}; name the folder of a training run.`, { cause });
  }
  return (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
}

/** Names of whole checkpoints, oldest first. */
async function checkpointsOf(run: string): Promise<readonly string[]> {
  const names = await readdir(join(run, "checkpoints")).catch(() => []);
  return names.filter((name) => /^step-\d+$/.test(name)).toSorted();
}

async function copyIfThere(from: string, to: string): Promise<void> {
  if (existsSync(from)) await copyFile(from, to);
}
