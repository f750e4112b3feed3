// Options of vLLM servers besides those of every server.

import { choice, section } from "../../parts/setting.ts";

export const vllmOptions = section("The policy", {
  logprobsMode: choice("<mode>", "raw", "processed").help(
    "how a vLLM server was started: raw, or processed (--logprobs-mode processed_logprobs)",
  ),
  endpoint: choice("<name>", "auto", "generate", "completions").help(
    "where a vLLM server samples: generate (/inference/v1/generate), completions (/v1/completions), or auto: the first where the server has it enabled",
  ),
});
