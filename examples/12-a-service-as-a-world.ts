// Tools that call an HTTP service: a parking house, whose server this file starts itself. A refusal
// of the service is an observation that the policy reads; a fault of the service is a failure of
// the episode, never a reward of 0.
// Run: npx trainable-agents example 12

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { auditEnvironment, createToolCalling, runEpisode } from "trainable-agents";
import { faultAt } from "trainable-agents/core";
import { createSglangEngine } from "trainable-agents/engines/sglang";
import { defineEnvironment } from "trainable-agents/environments";
import { createQwenRenderer } from "trainable-agents/renderers";
import { createFunctionSampler, createSglangFront } from "trainable-agents/testing";
import { createReadableTokenizer } from "trainable-agents/tokenizers";
import { taskUser } from "trainable-agents/users";

type Ticket = { minutes: number; paid: boolean };

// The service. Sessions keep episodes apart: POST /sessions opens one, DELETE ends it.
const sessions = new Map<string, Map<string, Ticket>>();
let opened = 0;
let isBroken = false;
const server = createServer((request, response) => {
  const answer = (status: number, body: unknown) => response.writeHead(status).end(JSON.stringify(body));
  void (async () => {
    const [, , session = "", , ticket = ""] = (request.url ?? "").split("/");
    if (request.method === "POST" && session === "") {
      const id = `s${++opened}`;
      sessions.set(id, new Map(Object.entries(JSON.parse(await bodyOf(request)) as Record<string, Ticket>)));
      return answer(201, { session: id });
    }
    const tickets = sessions.get(session);
    if (tickets === undefined) return answer(410, { reason: "this session has ended" });
    if (request.method === "DELETE") return answer(200, { ended: sessions.delete(session) });
    if (ticket === "") return answer(200, Object.fromEntries(tickets));
    const found = tickets.get(decodeURIComponent(ticket));
    if (found === undefined) return answer(404, { reason: "there is no such ticket" });
    if (isBroken) throw new Error("the barrier is stuck");
    if (request.method !== "PUT") return answer(200, found);
    if (found.paid) return answer(409, { reason: "this ticket is paid" });
    found.paid = true;
    return answer(200, found);
  })().catch(() => answer(500, { reason: "the parking house is broken" }));
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += String(part);
  return text;
}

await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sessions`;

/**
 * Reply of the service. Throws when the service refuses a request, so that the policy reads the
 * reason; a fault of the service is a failure of the episode.
 */
async function ask(path: string, options: RequestInit): Promise<unknown> {
  const answer = await fetch(`${base}${path}`, options).catch((cause: unknown) => {
    throw faultAt("environment", "unreachable", `Cannot reach the parking house: ${String(cause)}`, { cause });
  });
  const body = (await answer.json().catch(() => ({ reason: "no JSON" }))) as { readonly reason?: string };
  if (answer.ok) return body;
  if (answer.status === 404 || answer.status === 409) throw new Error(body.reason);
  throw faultAt("environment", "service", `The parking house answers with status ${answer.status}: ${body.reason}.`);
}

const ticket = { type: "object", properties: { ticket: { type: "string" } }, required: ["ticket"] };
const pathOf = (session: string, id: unknown) => `/${session}/tickets/${encodeURIComponent(String(id))}`;

type House = { tickets: Record<string, Ticket>; leaving: string };

const parkingHouse = defineEnvironment<House, { session: string }>({
  name: "parking-house",
  guidelines:
    "You help drivers leave a parking house. Ask for the ticket, look it up, and say what it costs before you take the fee.",
  setup: async ({ state, signal }) =>
    (await ask("", { method: "POST", body: JSON.stringify(state.tickets), signal })) as { session: string },
  teardown: async ({ resource }) => void (await ask(`/${resource.session}`, { method: "DELETE" })),
  tools: {
    find_ticket: {
      description: "Shows how long a car was there, and whether that is paid.",
      parameters: ticket,
      run: (args, _, { resource, signal }) => ask(pathOf(resource.session, args["ticket"]), { signal }),
    },
    take_fee: {
      description: "Takes the fee of a ticket.",
      parameters: ticket,
      run: (args, _, { resource, signal }) => ask(pathOf(resource.session, args["ticket"]), { method: "PUT", signal }),
    },
  },
  tasks: {
    test: ["P-1", "P-2"].map((leaving) => ({
      instruction: `You want to leave, and your ticket is ${leaving}.`,
      state: { leaving, tickets: { "P-1": { minutes: 50, paid: false }, "P-2": { minutes: 9, paid: false } } },
    })),
  },
  // The service knows the payments: there must be one fee, the right one.
  grade: async ({ state, resource, signal }) => {
    const tickets = (await ask(`/${resource.session}/tickets`, { signal })) as Record<string, Ticket>;
    return Object.entries(tickets).every(([id, { paid }]) => paid === (id === state.leaving)) ? 1 : 0;
  },
});

// Audit before training: is the environment deterministic, are its episodes isolated, and which
// reward does the same behaviour everywhere earn?
const { findings } = await auditEnvironment({ env: parkingHouse, callCount: 20 });
for (const { check, result, text } of findings) console.log(`${result.padEnd(7)}  ${check}: ${text}`);

// An episode whose turns are written here in place of a model. The first ticket does not exist,
// which the policy reads.
const call = (id: string) => `<tool_call>\n{"name": "take_fee", "arguments": {"ticket": "${id}"}}\n</tool_call>`;
const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;
let turns: string[] = [];
const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode(turns.shift() ?? "Goodbye."), endTokenId] }));
const front = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
const engine = createSglangEngine({ url: front.url });

async function play(lines: string[]): Promise<void> {
  turns = lines;
  const episode = await runEpisode(parkingHouse.taskset("test").task(0), {
    engine,
    environment: parkingHouse,
    user: taskUser(),
    strategy: createToolCalling(),
    renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
  });
  for (const event of episode.events) if (event.type === "tool-result") console.log(event.result.text);
  const { outcome, reward, failure } = episode;
  console.log(
    `${outcome}, reward ${reward}, ${failure === null ? "no failure" : `${failure.boundary}: ${failure.message}`}`,
  );
}

await play([call("P-9"), call("P-1"), "It is paid, goodbye."]);
isBroken = true;
await play([call("P-1"), "It is paid, goodbye."]);
console.log(`${opened} sessions were opened, ${sessions.size} are open.`);

await engine.close();
await front.close();
server.close();
