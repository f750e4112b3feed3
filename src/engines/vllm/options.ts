// Options of vLLM servers besides those of every server.

import { choice, section } from "../../parts/setting.ts";

export const vllmOptions = section("The policy", {
  logprobsMode: choice("<mode>", "raw", "processed").help(
    "logprobs mode of the vLLM server: raw, or processed (started with --logprobs-mode processed_logprobs)",
  ),
  endpoint: choice("<name>", "auto", "generate", "completions").help(
    "vLLM endpoint to sample from: generate (/inference/v1/generate), completions (/v1/completions), or auto (generate if the server has it enabled)",
  ),
});
