// The model that a training changes, with the engine that samples from it: the embedded one in
// threads of this process, or a real one in a Python process. The training itself is in `train.ts`.

import { copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";

import type { Engine } from "../core/index.ts";
import { createEmbeddedEngine } from "../engines/embedded/index.ts";
import {
  type CollapseLimits,
  createTrainer,
  defaultCollapseLimits,
  firstState,
  loadProgress,
  loadTraining,
  type LogprobAgreement,
  type LossSequence,
  type PolicyTrainer,
  saveCheckpoint,
  saveTraining,
  type SequenceOutcome,
  type Trainer,
  type TrainingProgressSaved,
  writeProgress,
} from "../learner/index.ts";
import { loadKernels, readCheckpoint } from "../learner/model/index.ts";
import type { Opened } from "../lib/opened.ts";
import { jsonOf } from "../lib/text.ts";
import { readRegular } from "../system/regular-file.ts";
import { modelPath } from "./model-path.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { Surroundings } from "./surroundings.ts";
import type { TrainSettings } from "./train-settings.ts";

/** A model that is loaded as far as prompts, tasks and settings are checked against it. */
export type ModelToTrain = {
  /** Folder of its tokenizer and chat template. */
  readonly rendererFolder: string;
  readonly contextLength: number;
  /** `null` if the weights are as many as the tokenizer needs. */
  readonly vocabularySize: number | null;
  /** Checkpoint to continue from; `null` to begin. */
  readonly saved: TrainingProgressSaved | null;
  readonly threads: number;
  /** Name of the code that computes, for train.json. */
  readonly kernels: string;
  /** A line about memory and size; `null` if there is nothing to say. */
  readonly notice: string | null;
  /** Starts trainer and engine, which `opened` receives. */
  open(endTokenId: number): Promise<TrainedModel>;
};

export type TrainedModel = {
  readonly engine: Engine;
  readonly trainer: PolicyTrainer;
  /** The trainer that imitates; `null` if the model learns from rewards only. */
  readonly cloner: Trainer | null;
  /** Signs of a collapse; absent: those of small models. */
  readonly collapse?: CollapseLimits;
  /** Differences of logprobs that stop the training; absent: those that rounding explains. */
  readonly agreement?: Pick<LogprobAgreement, "mean" | "largest">;
  readonly publish: (version: string) => Promise<void>;
  readonly reference: (sequences: readonly LossSequence[]) => Promise<readonly SequenceOutcome[]>;
  readonly save: (progress: Omit<TrainingProgressSaved, "folder">) => Promise<string>;
  readonly keepBest?: (checkpoint: string) => Promise<void>;
};

type Place = {
  readonly settings: TrainSettings;
  readonly base: RolloutSettings;
  /** Folder of the training, absolute. */
  readonly place: string;
  readonly surroundings: Surroundings;
  readonly opened: Opened;
};

/**
 * True if the settings name a model that PyTorch trains: a GGUF file, or a folder of a model that
 * is larger than those of the embedded engine or of another architecture.
 */
export async function isRealModel(base: Pick<RolloutSettings, "gguf" | "model">, cwd: string): Promise<boolean> {
  if (base.gguf !== null) return true;
  if (base.model === null) return false;
  const text = await readRegular(join(modelPath(base.model, cwd), "config.json"), "utf8").catch(() => "");
  const config = (jsonOf(text) ?? {}) as { readonly model_type?: unknown; readonly hidden_size?: unknown };
  if (typeof config.model_type !== "string") return false;
  return config.model_type !== "qwen3" || Number(config.hidden_size) > largestEmbedded;
}

/** Hidden size up to which the embedded trainer is the faster one. */
const largestEmbedded = 512;

export async function loadEmbedded({ settings, base, place, surroundings, opened }: Place): Promise<ModelToTrain> {
  const modelFolder = base.model ?? "";
  const untrained = await readCheckpoint(modelPath(modelFolder, surroundings.cwd));
  const saved = settings.resume === null ? null : await loadTraining(place);
  const checkpoint = saved?.checkpoint ?? untrained;
  const threads = settings.threads ?? Math.min(8, availableParallelism());
  return {
    rendererFolder: modelFolder,
    contextLength: untrained.config.contextLength,
    vocabularySize: untrained.config.vocabularySize,
    saved,
    threads,
    kernels: loadKernels().build,
    notice: null,
    open: async (endTokenId) => {
      const optimizer = saved === null ? {} : { optimizer: saved.optimizer };
      const trainer = await createTrainer(checkpoint, { threads, ...optimizer });
      opened.add(() => trainer.close());
      const { step } = saved?.state ?? firstState;
      const engine = createEmbeddedEngine({
        checkpoint,
        weightVersion: `step-${step}`,
        seed: base.seed,
        ...(settings.threads === null ? {} : { threads: settings.threads }),
      });
      opened.add(() => engine.close());
      return {
        engine,
        trainer,
        cloner: trainer,
        publish: (version) => engine.updateWeights(trainer.weights(), version),
        reference: (sequences) => trainer.evaluate(sequences, { weights: untrained.weights }),
        save: async (progress) =>
          saveTraining(place, {
            ...progress,
            checkpoint: { config: trainer.config, weights: trainer.weights() },
            optimizer: await trainer.optimizerState(),
            modelFolder: resolve(surroundings.cwd, modelFolder),
            endTokenId,
          }),
      };
    },
  };
}

/** Differences that bfloat16 explains end below; larger ones mean that tokens or weights are not the same. */
const torchAgreement = { mean: 0.05, largest: Infinity };
/** Deadline of one call of the engine: the first prompt of a large model on a slow machine. */
const callTimeoutMs = 3_600_000;
const defaultContext = 4096;

/** Starts the Python process, which loads the weights: that takes up to minutes. */
export async function loadTorch(
  { settings, base, place, surroundings, opened }: Place,
  { signal, notice }: { readonly signal: AbortSignal; readonly notice: (message: string) => void },
): Promise<ModelToTrain> {
  const { createTorchTrainer, findPython, startTorch } = await import("../learner/torch/index.ts");
  const { cwd, env: variables } = surroundings;
  const { python, install, rank, threads } = settings;
  const saved = settings.resume === null ? null : await loadProgress(place);
  const found = await findPython({ python, install, variables, signal, onNotice: notice });
  const tokenizerFolder = join(place, "model");
  const model =
    base.gguf === null
      ? { folder: modelPath(base.model ?? "", cwd) }
      : { gguf: resolve(cwd, base.gguf), tokenizerFolder };
  notice(`Loading ${base.gguf ?? base.model} with ${found.program}.`);
  const torch = await startTorch({
    python: found.program,
    model,
    adapter: saved?.folder ?? null,
    weightVersion: `step-${saved?.state.step ?? firstState.step}`,
    context: base.maxContextTokens ?? defaultContext,
    rank,
    threads,
    seed: base.seed,
    variables,
    signal,
  });
  opened.add(() => torch.close());
  const { facts } = torch;
  const url = `http://127.0.0.1:${facts.port}`;
  return {
    rendererFolder: base.gguf === null ? (base.model ?? "") : tokenizerFolder,
    contextLength: facts.context,
    vocabularySize: null,
    saved,
    threads: facts.threads,
    kernels: `torch, ${facts.device}`,
    notice:
      `${millions(facts.parameters)} M parameters on ${facts.device} with ${facts.threads} threads; an adapter of rank ${rank} ` +
      `(${millions(facts.trained_parameters)} M) is trained. It needs about ${gigabytes(facts.needed_bytes)} GB of memory` +
      (facts.free_bytes === null ? "" : `, ${gigabytes(facts.free_bytes)} are free`) +
      (facts.saves_memory ? "; activations are computed again to save memory." : "."),
    open: async () => {
      const { createSglangEngine } = await import("../engines/sglang/index.ts");
      const trainer = createTorchTrainer(url, torch.errors);
      opened.add(() => trainer.close());
      const engine = createSglangEngine({ url, timeoutMs: callTimeoutMs });
      opened.add(() => engine.close());
      await engine.weightVersion();
      return {
        engine,
        trainer,
        cloner: null,
        agreement: torchAgreement,
        // Before it has learnt anything, a real model often speaks in every episode and calls nothing.
        collapse: { ...defaultCollapseLimits, behaviourSteps: Infinity },
        publish: async (version) => {
          await trainer.publish(version);
          await engine.reportWeightVersion(version);
        },
        reference: (sequences) => trainer.evaluateBase(sequences),
        save: (progress) =>
          saveCheckpoint(place, progress.state.step, async (folder) => {
            await trainer.save(folder);
            await writeProgress(folder, progress);
          }),
        keepBest: (checkpoint) => copyBest(checkpoint, join(place, "best")),
      };
    },
  };
}

/** Replaces `best` by a copy of the checkpoint without the optimizer's state. */
async function copyBest(checkpoint: string, best: string): Promise<void> {
  const unfinished = `${best}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished);
  for (const name of await readdir(checkpoint)) {
    if (name !== "optimizer.pt") await copyFile(join(checkpoint, name), join(unfinished, name));
  }
  await rm(best, { recursive: true, force: true });
  await rename(unfinished, best);
}

function millions(count: number): string {
  return (count / 1e6).toFixed(count < 1e7 ? 1 : 0);
}

function gigabytes(bytes: number): string {
  return (bytes / 1e9).toFixed(1);
}
