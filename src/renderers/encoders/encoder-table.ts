// The table of encoders: the model folders that each is for, and the files with its vendor's
// sentences. An encoder is loaded together with a model of its kind.

import { ConfigurationError } from "../../core/index.ts";
import type { JsonObject } from "../../python-semantics/json/index.ts";
import type { PromptEncoder } from "../chat-template.ts";
import { pythonStrings } from "./python-strings.ts";
import type { VendorSentences } from "./prompt-encoder.ts";

export type EncoderRow = {
  /** Name of the family. */
  readonly name: string;
  /** `model_type` of config.json. */
  readonly modelType: string;
  /** Text that the first of `architectures` contains. */
  readonly architecture: string;
  /**
   * Files with the vendor's sentences, from the model folder; the existing ones are read, the first
   * one first.
   */
  readonly files: readonly string[];
  /**
   * Makes the encoder from the contents of the existing files. Rejects with a `ConfigurationError`
   * that gives the reason if none exists.
   */
  readonly load: (contents: readonly string[]) => Promise<PromptEncoder>;
};

type Create = (sentences: VendorSentences) => PromptEncoder;

/** A row without its contents: `create` imports the encoder. */
type Entry = Omit<EncoderRow, "load"> & { readonly create: () => Promise<Create> };

const glm53 = {
  name: "glm-5.3",
  // Earlier GLM models share the architecture; only GLM-5.3 has such a file.
  files: ["encoding/glm53_chat_template.py", "chat_template.py"],
  create: async (): Promise<Create> => (await import("./glm53.ts")).createGlm53Encoder,
};

// V4.1 first: its folders may name the architecture of V4.
const rows: readonly Entry[] = [
  {
    name: "deepseek-v4.1",
    modelType: "deepseek_v41",
    architecture: "DeepseekV41",
    files: ["encoding/encoding_dsv41.py", "encoding/deepseek_v41_encoding.py"],
    create: async () => (await import("./deepseek-v4.ts")).createDeepseekV41Encoder,
  },
  {
    name: "deepseek-v4",
    modelType: "deepseek_v4",
    architecture: "DeepseekV4",
    files: ["encoding/encoding_dsv4.py", "encoding/deepseek_v4_encoding.py"],
    create: async () => (await import("./deepseek-v4.ts")).createDeepseekV4Encoder,
  },
  {
    name: "deepseek-v3.2",
    modelType: "deepseek_v32",
    architecture: "DeepseekV32",
    files: ["encoding/encoding_dsv32.py"],
    create: async () => (await import("./deepseek-v32.ts")).createDeepseekV32Encoder,
  },
  { ...glm53, modelType: "glm_moe_dsa", architecture: "GlmMoeDsa" },
  { ...glm53, modelType: "glm5_next", architecture: "Glm5Next" },
  {
    name: "kimi-k3",
    modelType: "kimi_k3",
    architecture: "KimiK3",
    files: [],
    create: () => refuseFamily("kimi-k3", "its tokenizer's own Python code makes its prompts"),
  },
  {
    name: "inkling",
    modelType: "inkling",
    architecture: "InklingForConditionalGeneration",
    files: [],
    create: async () => (await import("./inkling.ts")).createInklingEncoder,
  },
];

async function load({ name, files, create }: Entry, contents: readonly string[]): Promise<PromptEncoder> {
  if (name === glm53.name && contents.length === 0) {
    const reason = `the folder has neither its chat template nor one of the files ${files.join(" and ")}`;
    return refuseFamily(name, reason);
  }
  const texts = new Map(contents.toReversed().flatMap((content) => [...pythonStrings(content)]));
  return (await create())({ sentences: texts, files });
}

/** Refuses a family that is known, but has no encoder yet. */
function refuseFamily(name: string, reason: string): Promise<never> {
  return Promise.reject(
    new ConfigurationError(
      `Cannot render for model family "${name}": ${reason}, and there is no built-in encoder for it; give a chat template that ` +
        "writes the same prompts (chat_template.jinja in the model folder).",
    ),
  );
}

/** The encoder for a config.json; `null` if this kind of model has no encoder. */
export function encoderOf(config: JsonObject | null): EncoderRow | null {
  const modelType = config?.get("model_type");
  const architectures = config?.get("architectures");
  const first: unknown = Array.isArray(architectures) ? architectures[0] : undefined;
  const architecture = typeof first === "string" ? first : "";
  const entry = rows.find((row) => modelType === row.modelType || architecture.includes(row.architecture));
  return entry === undefined ? null : { ...entry, load: (contents) => load(entry, contents) };
}
