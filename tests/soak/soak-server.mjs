// The server of the soak, on which everything goes wrong: a process of its own, so that its memory
// does not count. Sends {"url"} when it listens, and answers any message with {"faults","load"}:
// how often each fault occurred, and the work still in progress.

import { createExpertSampler } from "../../dist/environments/bookshop/index.js";
import { createFaultSampler, createSglangFront, faultNames } from "../../dist/testing/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";

const tokenizer = createReadableTokenizer();
const rates = Object.fromEntries(faultNames.map((name) => [name, 0.05]));
const sampler = createFaultSampler(createExpertSampler({ tokenizer, noise: 0.2, seed: 3 }), { seed: 5, rates });
const front = createSglangFront({ sampler, tokenizer });
const listener = await front.listen();
process.on("message", () => process.send({ faults: sampler.counts, load: front.load() }));
process.on("disconnect", () => process.exit());
process.send({ url: listener.url });
