// A gateway that is killed: a policy that answers every request, in the folder and at the port of
// its parameters. Restarted there, it resumes the sessions of the previous process.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { createGateway } from "../../dist/gateway/index.js";
import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { createFileRunStore, resumeFileRunStore } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";

const [, , folder = "", port = "0"] = process.argv;
const tokenizer = createReadableTokenizer();
const engine = createScriptedEngine({
  tokenizer,
  // The prompt ends with the last question; its number is sent back.
  script: ({ prompt }) => {
    const asked = tokenizer.decode(prompt.view(Math.max(0, prompt.length - 40))).match(/question \d+/g) ?? [];
    return `Answer to ${asked.at(-1)}.<|im_end|>`;
  },
});
const earlier = existsSync(join(folder, "run.json")) ? await resumeFileRunStore(folder) : null;
const store = earlier?.store ?? createFileRunStore(folder);
await store.begin(new Map([["format", 4]]));
const gateway = createGateway({
  engine,
  renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
  store,
});
if (earlier !== null) await gateway.restore(earlier);
const { url } = await gateway.listen({ port: Number(port) });
process.stdout.write(`${url}\n`);
