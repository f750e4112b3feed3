// A model as a folder in Hugging Face's layout: config.json and model.safetensors. `tokenizers/`
// reads the tokenizer in the same folder.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";
import { type ModelConfig, readModelConfig, toHuggingFaceConfig } from "./model-config.ts";
import { parameterLayout } from "./parameter-layout.ts";
import { readRegular } from "../../system/regular-file.ts";

export type Checkpoint = {
  readonly config: ModelConfig;
  /** All parameters, as `parameterLayout` orders them. */
  readonly weights: Float32Array;
};

/** Rejects with a `ConfigurationError` that names the file and its fault. */
export async function readCheckpoint(folder: string): Promise<Checkpoint> {
  const [configFile, weightsFile] = [join(folder, "config.json"), join(folder, "model.safetensors")];
  // Read one after the other, so that of two missing files the same is always named.
  const config = readModelConfig(await readModelJson(configFile), configFile);
  const tensors = readSafetensors(await read(weightsFile), weightsFile);
  return { config, weights: toWeights(config, tensors, weightsFile) };
}

export type WriteCheckpointOptions = {
  /** Written to config.json. Default: none. */
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

/** The weights by name; views, not copies. */
export function toTensors(config: ModelConfig, weights: Float32Array): Map<string, Tensor> {
  const { parameters } = parameterLayout(config);
  return new Map(
    parameters.map(({ name, shape, offset, size }) => [
      name,
      { shape, values: weights.subarray(offset, offset + size) },
    ]),
  );
}

/** The place of the first NaN or infinity; -1 if all are finite. */
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
        `Cannot read weights "${source}": tensor "${name}" ${state}, but config.json expects [${shape.join(", ")}]; ` +
          "use both files of one model.",
      );
    }
    const wrong = firstNotFinite(tensor.values);
    if (wrong >= 0) {
      throw new ConfigurationError(
        `Cannot read weights "${source}": tensor "${name}" has ${tensor.values[wrong]} at place ${wrong}, expected finite numbers; ` +
          "the training that wrote them diverged: use an earlier checkpoint.",
      );
    }
    weights.set(tensor.values, offset);
  }
  return weights;
}

async function read(path: string): Promise<Uint8Array> {
  try {
    return await readRegular(path);
  } catch (cause) {
    throw new ConfigurationError(`Cannot read model file "${path}": ${(cause as Error).message}.`, { cause });
  }
}

/** JSON of a model folder. Rejects with a `ConfigurationError` that names the file. */
export async function readModelJson(path: string): Promise<unknown> {
  const bytes = await read(path);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read model file "${path}": it is not JSON; download it again.`, { cause });
  }
}

export type Tensor = {
  readonly shape: readonly number[];
  readonly values: Float32Array;
};

const bytesOf: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };

/**
 * Tensors by name, in the order of the header. Throws a `ConfigurationError` that names `source`
 * for bytes in another format.
 */
export function readSafetensors(bytes: Uint8Array, source: string): Map<string, Tensor> {
  const refuse = (problem: string): ConfigurationError =>
    new ConfigurationError(`Cannot read weights "${source}": ${problem}; use a valid model.safetensors file.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerLength = bytes.byteLength < 8 ? Infinity : Number(view.getBigUint64(0, true));
  if (8 + headerLength > bytes.byteLength) throw refuse("its header is truncated");
  if (headerLength > maxHeaderBytes) throw refuse(`its header has more than ${maxHeaderBytes} bytes`);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerLength)));
  } catch {
    throw refuse("its header is not JSON");
  }
  if (!isRecord(header)) throw refuse("its header is not a JSON object");
  const tensors = new Map<string, Tensor>();
  let taken = 8 + headerLength;
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    if (!isRecord(entry)) throw refuse(`tensor "${name}" is described by no JSON object`);
    const dtype = typeof entry["dtype"] === "string" ? entry["dtype"] : "none";
    const [shape, offsets] = [sizes(entry["shape"]), sizes(entry["data_offsets"])];
    const width = bytesOf[dtype];
    if (width === undefined) throw refuse(`tensor "${name}" is of type ${dtype}, expected F32, F16 or BF16`);
    const count = shape?.reduce((product, length) => product * length, 1) ?? -1;
    const [start = -1, end = -1] = offsets ?? [];
    const from = 8 + headerLength + start;
    if (shape === undefined || start < 0 || end - start !== count * width || from + count * width > bytes.byteLength) {
      throw refuse(`the offsets of tensor "${name}" do not fit its shape or the file`);
    }
    // Tensors that share bytes would make a small file take any amount of memory.
    if ((taken += count * width) > bytes.byteLength) throw refuse(`tensor "${name}" lies where another one does`);
    tensors.set(name, { shape, values: readFloats(bytes.subarray(from, from + count * width), dtype) });
  }
  return tensors;
}

/** The format's own limit. */
const maxHeaderBytes = 100_000_000;

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whole numbers from 0; `undefined` for anything else. */
function sizes(value: unknown): readonly number[] | undefined {
  const isSize = (size: unknown): boolean => Number.isSafeInteger(size) && (size as number) >= 0;
  return Array.isArray(value) && value.every(isSize) ? (value as readonly number[]) : undefined;
}

function readFloats(bytes: Uint8Array, dtype: string): Float32Array {
  // A copy: tensors begin at any byte of the file, and arrays of floats only at every fourth. (Node's buffers share on `slice`.)
  const copy = new Uint8Array(bytes).buffer;
  if (dtype === "F32") return new Float32Array(copy);
  const halves = new Uint16Array(copy);
  if (dtype === "F16") return Float32Array.from(halves, widenHalf);
  const words = Uint32Array.from(halves, (half) => half << 16);
  return new Float32Array(words.buffer);
}

function widenHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** F32 keeps every bit; BF16 is half the size and keeps 8 bits of each number (see `roundToBrainFloats`). */
export type WrittenType = "F32" | "BF16";

/** Tensors in the order given, after a header padded to 8 bytes. BF16 rounds to the nearest, ties to even. */
export function writeSafetensors(tensors: ReadonlyMap<string, Tensor>, dtype: WrittenType = "F32"): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  let end = 0;
  for (const [name, { shape, values }] of tensors) {
    const length = values.length * bytesOf[dtype]!;
    header[name] = { dtype, shape, data_offsets: [end, end + length] };
    end += length;
  }
  const text = JSON.stringify(header);
  const json = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const bytes = new Uint8Array(8 + json.byteLength + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  bytes.set(json, 8);
  let at = 8 + json.byteLength;
  for (const { values } of tensors.values()) {
    const written = dtype === "F32" ? values : upperHalves(roundToBrainFloats(values));
    bytes.set(new Uint8Array(written.buffer, written.byteOffset, written.byteLength), at);
    at += written.byteLength;
  }
  return bytes;
}

/**
 * The nearest numbers that BF16 can hold, ties to even; a file in BF16 reads back exactly these.
 */
export function roundToBrainFloats(values: Float32Array): Float32Array {
  const rounded = values.slice();
  const words = new Uint32Array(rounded.buffer);
  for (let index = 0; index < words.length; index++) {
    const word = words[index]!;
    // Infinities and NaN are not rounded.
    if ((word & 0x7f80_0000) === 0x7f80_0000) words[index] = word & 0xffff_0000;
    else words[index] = (word + 0x7fff + ((word >>> 16) & 1)) & 0xffff_0000;
  }
  return rounded;
}

function upperHalves(values: Float32Array): Uint16Array {
  return Uint16Array.from(new Uint32Array(values.buffer, values.byteOffset, values.length), (word) => word >>> 16);
}
