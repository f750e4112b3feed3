// One episode of the bookshop as a library call: no server, no key, no GPU. The engine speaks
// SGLang's protocol over a socket; a scripted expert answers in place of a model. Point the engine
// at your server and nothing else changes.
// Run: npx trainable-agents example 02

import { createToolCalling, episodeSamples, runEpisode } from "trainable-agents";
import { createSglangEngine } from "trainable-agents/engines/sglang";
import { bookshopSource, createExpertSampler } from "trainable-agents/environments/bookshop";
import { createQwenRenderer } from "trainable-agents/renderers";
import { createSglangFront } from "trainable-agents/testing";
import { createReadableTokenizer } from "trainable-agents/tokenizers";
import { dumpSample } from "trainable-agents/trajectories";
import { agendaUser } from "trainable-agents/users";

const tokenizer = createReadableTokenizer();
const server = await createSglangFront({ sampler: createExpertSampler({ tokenizer }), tokenizer }).listen();

const engine = createSglangEngine({ url: server.url });
const environment = bookshopSource();
const episode = await runEpisode(environment.taskset("test").task(3), {
  engine,
  environment,
  renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
  strategy: createToolCalling(),
  user: agendaUser(),
});

console.log(`${episode.outcome} (${episode.stopReason}), reward ${episode.reward}`);
const [sample] = episodeSamples(episode).samples;
if (sample === undefined) throw new Error("A graded episode has a sample.");
const lines = dumpSample(sample, (ids) => tokenizer.decode(ids)).split("\n");
console.log(`${lines.length} tokens (place, id, 1 = trained, logprob, text), some of them:`);
console.log(lines.slice(-26, -12).join("\n"));

await engine.close();
await server.close();
