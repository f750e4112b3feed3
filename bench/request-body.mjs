// Cost of a /generate body: the append-only bytes of the engine against JSON.stringify of the whole
// prompt, for a turn that adds 200 tokens to a context of 2k, 8k and 32k. Medians over interleaved
// rounds; compare the ratios.
// Run after `npm run build`: node bench/request-body.mjs

import { TokenBuffer } from "../dist/core/token-buffer.js";
import { createGenerateBodies, toGenerateFields } from "../dist/engines/sglang/generate-request.js";
import { createRandom } from "../dist/lib/random.js";
import { defaultSampling } from "../dist/core/engine.js";

const newTokens = 200;
const rounds = 400;
const random = createRandom(7);
const ids = (count) => Uint32Array.from({ length: count }, () => random.integer(151_936));

function time(work) {
  const start = process.hrtime.bigint();
  const bytes = work();
  const end = process.hrtime.bigint();
  if (bytes.length === 0) throw new Error("The body is empty.");
  return Number(end - start) / 1000;
}

function quantile(values, place) {
  return values.toSorted((left, right) => left - right)[Math.floor((values.length - 1) * place)];
}

function measure(context) {
  const writer = createGenerateBodies();
  const appended = [];
  const stringified = [];
  for (let round = 0; round < rounds; round++) {
    const prompt = TokenBuffer.from(ids(context - newTokens));
    const request = {
      prompt,
      sampling: defaultSampling,
      stopTokenIds: [151_645],
      requestId: `bench-${round}`,
      routingKey: null,
    };
    const fields = toGenerateFields(request, false);
    writer.write(prompt, fields).release();
    prompt.append(ids(newTokens));
    appended.push(
      time(() => {
        const body = writer.write(prompt, toGenerateFields(request, false));
        body.release();
        return body.bytes;
      }),
    );
    stringified.push(
      time(() =>
        Buffer.from(JSON.stringify({ input_ids: Array.from(prompt.view()), ...toGenerateFields(request, false) })),
      ),
    );
  }
  return { appended: appended.slice(rounds / 4), stringified: stringified.slice(rounds / 4) };
}

measure(2000);
console.log("context   append us (p10 p50 p90)    stringify us (p10 p50 p90)   ratio of medians");
for (const context of [2000, 8000, 32_000]) {
  const { appended, stringified } = measure(context);
  const show = (values) => [0.1, 0.5, 0.9].map((place) => quantile(values, place).toFixed(1).padStart(7)).join(" ");
  const ratio = quantile(stringified, 0.5) / quantile(appended, 0.5);
  console.log(`${String(context).padStart(7)}   ${show(appended)}   ${show(stringified)}     ${ratio.toFixed(1)}`);
}
