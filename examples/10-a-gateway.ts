// An agent program of your own, trained unchanged: it sends Chat Completions to the gateway, and
// the policy's samples for it form an episode with a reward. World, user and tools belong to the
// program; it knows only an address and a key of the policy. Point `url` at your SGLang server, and
// any client library at the gateway; nothing else changes.
// Run: npx trainable-agents example 10

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gateway } from "trainable-agents";
import { bookshopSource } from "trainable-agents/environments/bookshop";
import { agendaUser } from "trainable-agents/users";

const out = join(await mkdtemp(join(tmpdir(), "gateway-")), "run");
const running = await gateway({ engine: "embedded", temperature: 0, listen: "127.0.0.1:0", out });
const { id, key } = await running.open({ task: "a question to the bookshop" });

type Call = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };
type Message = { readonly role: string; readonly content: string | null; readonly tool_calls?: readonly Call[] };

/**
 * The program's only access to the policy: the request that any client library of Chat Completions
 * sends.
 */
async function chat(messages: readonly unknown[], tools: readonly unknown[]): Promise<Message> {
  const answer = await running.fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "policy", messages, tools }, (_, value: unknown) =>
      value instanceof Map ? (Object.fromEntries(value) as object) : value,
    ),
  });
  return ((await answer.json()) as { readonly choices: readonly [{ readonly message: Message }] }).choices[0].message;
}

const task = bookshopSource().taskset("validation").task(0);
const shop = bookshopSource().open(task);
const user = agendaUser().create(task, { seed: 0 });
const tools = shop.tools.map(({ definition }) => definition);
let said = (await user.open()).text;
const messages: unknown[] = [
  { role: "system", content: shop.guidelines },
  { role: "user", content: said },
];
console.log(`user    ${said}`);
for (let turn = 0, isOver = false; turn < 12 && !isOver; turn++) {
  const message = await chat(messages, tools);
  messages.push(message);
  if (message.content) console.log(`agent   ${message.content}`);
  const [call] = message.tool_calls ?? [];
  if (call === undefined) {
    await shop.receiveUtterance(message.content ?? "");
    const heard = await user.reply(message.content ?? "");
    said = heard.text;
    console.log(`user    ${said}`);
    messages.push({ role: "user", content: said });
    isOver = heard.type === "hang-up";
  } else {
    const given = JSON.parse(call.function.arguments) as Readonly<Record<string, string>>;
    const result = await shop.call({ name: call.function.name, arguments: new Map(Object.entries(given)) });
    console.log(`call    ${call.function.name} ${call.function.arguments}\nresult  ${result.text}`);
    messages.push({ role: "tool", tool_call_id: call.id, content: result.text });
    isOver = result.endsEpisode;
  }
}

const { reward, log } = await shop.grade({ outcome: "completed" });
await running.reward(id, { reward, metrics: {}, log, info: new Map() });
const [session] = running.sessions;
console.log(`\nreward  ${reward}: ${log}`);
console.log(
  `record  ${session?.turns} turns, ${session?.counters.extended} of them appended to the tokens of the turn before`,
);
const { outcome } = await running.end(id);
console.log(`        ${outcome}; read it with: npx trainable-agents inspect ${out} 1`);
await running.close();
