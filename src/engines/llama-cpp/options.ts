// Options of llama.cpp in this process.

import { section, text } from "../../parts/setting.ts";

export const llamaCppOptions = section("The policy", {
  gguf: text("<file>", "the path of a GGUF file").help(
    "weights for engine llama-cpp; --model names the folder of their tokenizer and chat template",
  ),
});
