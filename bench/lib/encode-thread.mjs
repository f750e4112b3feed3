/* oxlint-disable unicorn/require-post-message-target-origin -- of windows, not of threads */
// A thread that encodes: loads the tokenizer once, then answers texts with ids, whose buffer is
// transferred and not copied.

import { parentPort, workerData } from "node:worker_threads";

import { createTokenizer } from "../../dist/tokenizers/index.js";

const tokenizer = await createTokenizer("thread", { tokenizerJson: workerData, tokenizerConfig: null });
parentPort.on("message", ({ key, text }) => {
  const ids = tokenizer.encode(text).slice();
  parentPort.postMessage({ key, ids }, [ids.buffer]);
});
parentPort.postMessage({ key: -1, ids: null });
