// A model as a folder in Hugging Face's layout: config.json and model.safetensors. Its tokenizer lies beside them and is
// `tokenizers/`' to read.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";
import { type ModelConfig, readModelConfig, toHuggingFaceConfig } from "./model-config.ts";
import { parameterLayout } from "./parameter-layout.ts";
import { readSafetensors, type Tensor, type WrittenType, writeSafetensors } from "./safetensors.ts";

export type Checkpoint = {
  readonly config: ModelConfig;
  /** All parameters, as `parameterLayout` orders them. */
  readonly weights: Float32Array;
};

/** Rejects with a `ConfigurationError` that names the file and what is wrong with it. */
export async function readCheckpoint(folder: string): Promise<Checkpoint> {
  const [configFile, weightsFile] = [join(folder, "config.json"), join(folder, "model.safetensors")];
  // One after the other, so that of two missing files the same is named every time.
  const config = readModelConfig(parse(await read(configFile), configFile), configFile);
  const tensors = readSafetensors(await read(weightsFile), weightsFile);
  return { config, weights: toWeights(config, tensors, weightsFile) };
}

export type WriteCheckpointOptions = {
  /** Goes into config.json. Default: none. */
  readonly endTokenId?: number;
  /** BF16 rounds the weights; the file is half as large. Default "F32". */
  readonly dtype?: WrittenType;
};

/** Writes both files; the folder must exist. */
export async function writeCheckpoint(
  folder: string,
  checkpoint: Checkpoint,
  options: WriteCheckpointOptions = {},
): Promise<void> {
  const { config, weights } = checkpoint;
  const { endTokenId = null, dtype = "F32" } = options;
  const torchType = dtype === "F32" ? "float32" : "bfloat16";
  const text = `${JSON.stringify({ ...toHuggingFaceConfig(config, endTokenId), torch_dtype: torchType }, null, 2)}\n`;
  await writeFile(join(folder, "model.safetensors"), writeSafetensors(toTensors(config, weights), dtype));
  await writeFile(join(folder, "config.json"), text);
}

/** The weights by name; views of them, no copies. */
export function toTensors(config: ModelConfig, weights: Float32Array): Map<string, Tensor> {
  const { parameters } = parameterLayout(config);
  return new Map(
    parameters.map(({ name, shape, offset, size }) => [
      name,
      { shape, values: weights.subarray(offset, offset + size) },
    ]),
  );
}

/** The place of the first NaN or infinity; -1 when there is none. */
export function firstNotFinite(values: Float32Array): number {
  for (let index = 0; index < values.length; index++) if (!Number.isFinite(values[index])) return index;
  return -1;
}

function toWeights(config: ModelConfig, tensors: ReadonlyMap<string, Tensor>, source: string): Float32Array {
  const layout = parameterLayout(config);
  const weights = new Float32Array(layout.size);
  for (const { name, shape, offset } of layout.parameters) {
    const tensor = tensors.get(name);
    if (tensor === undefined || tensor.shape.join() !== shape.join()) {
      const state = tensor === undefined ? "is missing" : `has the shape [${tensor.shape.join(", ")}]`;
      throw new ConfigurationError(
        `Cannot read weights "${source}": tensor "${name}" ${state}, [${shape.join(", ")}] wanted by config.json; ` +
          "give the two files of one model.",
      );
    }
    const wrong = firstNotFinite(tensor.values);
    if (wrong >= 0) {
      throw new ConfigurationError(
        `Cannot read weights "${source}": tensor "${name}" has ${tensor.values[wrong]} at place ${wrong}, finite numbers wanted; ` +
          "the training that wrote them diverged: give an earlier checkpoint.",
      );
    }
    weights.set(tensor.values, offset);
  }
  return weights;
}

async function read(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new ConfigurationError(`Cannot read model file "${path}": ${(cause as Error).message}.`, { cause });
  }
}

function parse(bytes: Uint8Array, path: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read model file "${path}": it is not JSON; download it again.`, { cause });
  }
}
