// An agent program of your own, which a gateway trains unchanged. Users, tools and rewards are its
// own (here the bookshop, as a library); it knows only an address and a key of the policy. With
// TRAINABLE_AGENTS_TASK, which `rollout --agent-command` sets, it runs one session and prints its
// reward; otherwise it reads one session per line, {"key", "split", "index", "seed"}, and answers
// each. Run it with a file tasks.jsonl of lines like {"id": "one", "index": 0}:
//   npx trainable-agents rollout --env tasks.jsonl --engine embedded --agent-command "node your-own-agent.mjs"

import { createInterface } from "node:readline";
import { bookshopSource } from "trainable-agents/environments/bookshop";
import { agendaUser } from "trainable-agents/users";

const { TRAINABLE_AGENTS_BASE_URL, TRAINABLE_AGENTS_SESSION, TRAINABLE_AGENTS_TASK } = process.env;
const source = bookshopSource();

async function play({ key = TRAINABLE_AGENTS_SESSION, split = "train", index, seed = 0 }) {
  const task = source.taskset(split).task(index);
  const world = await source.open(task);
  const user = agendaUser().create(task, { seed });
  const tools = world.tools.map(({ definition }) => definition);
  const messages = [{ role: "system", content: world.guidelines }];
  messages.push({ role: "user", content: (await user.open()).text });
  for (let turn = 0; turn < 20; turn++) {
    const response = await fetch(`${TRAINABLE_AGENTS_BASE_URL}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "policy", messages, tools }, (_, value) =>
        value instanceof Map ? Object.fromEntries(value) : value,
      ),
    });
    const answer = await response.json();
    if (answer.error?.code === "context_length_exceeded") break;
    if (!response.ok) throw new Error(JSON.stringify(answer));
    const { message } = answer.choices[0];
    messages.push(message);
    const [call] = message.tool_calls ?? [];
    if (call !== undefined) {
      const given = new Map(Object.entries(JSON.parse(call.function.arguments)));
      const result = await world.call({ name: call.function.name, arguments: given });
      if (result.endsEpisode) return world.grade({ outcome: "completed" });
      messages.push({ role: "tool", tool_call_id: call.id, content: result.text });
    } else {
      await world.receiveUtterance(message.content ?? "");
      const heard = await user.reply(message.content ?? "");
      if (heard.type === "hang-up") return world.grade({ outcome: "completed" });
      messages.push({ role: "user", content: heard.text });
    }
  }
  return world.grade({ outcome: "truncated" });
}

const answer = async (line) => {
  const session = JSON.parse(line);
  const { reward, metrics } = await play(session);
  console.log(JSON.stringify({ reward, metrics, key: session.key }));
};
if (TRAINABLE_AGENTS_TASK !== undefined) await answer(TRAINABLE_AGENTS_TASK);
else createInterface({ input: process.stdin }).on("line", (line) => void answer(line));
