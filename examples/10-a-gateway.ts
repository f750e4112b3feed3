// An agent program of your own, trained as it is: it speaks Chat Completions to the gateway, and what the policy sampled for it is an
// episode with a reward. Point `url` at your SGLang server, and any client library at the gateway; nothing else changes.

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gateway } from "trainable-agents";

const out = join(await mkdtemp(join(tmpdir(), "gateway-")), "run");
const running = await gateway({ engine: "embedded", listen: "127.0.0.1:0", out });
const { id, key } = await running.open({ task: "greeting" });

type Answer = { readonly choices: readonly [{ readonly message: { readonly content: string } }] };
const messages: unknown[] = [];
for (const content of ["Hello.", "Which books do you have?"]) {
  messages.push({ role: "user", content });
  const answer = await running.fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "policy", messages }),
  });
  const { message } = ((await answer.json()) as Answer).choices[0];
  messages.push(message);
  console.log(`${content} ${message.content}`);
}

const [session] = running.sessions;
console.log(`${session?.turns} turns, ${session?.counters.extended} of them appended to the record`);
await running.reward(id, { reward: 1, metrics: {}, log: "it was polite", info: new Map() });
const { outcome, reward } = await running.end(id);
console.log(`${outcome}, reward ${reward}; npx trainable-agents inspect ${out}`);
await running.close();
