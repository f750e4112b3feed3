// Options of llama.cpp in this process.

import { section, text } from "../../parts/setting.ts";

export const llamaCppOptions = section("The policy", {
  gguf: text("<file>", "the path of a GGUF file").help(
    "a model for engine llama-cpp; its tokenizer and chat template are those in the file unless --model names a folder",
  ),
  ggufAdapter: text("<file>", "the path of a GGUF file with an adapter").help(
    "adapter (LoRA) for --gguf, such as adapter.gguf of a checkpoint of train; its hash is the weight version",
  ),
});
