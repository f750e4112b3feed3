// Clients that merge several steps of the assistant into one message.

import { expect, test } from "vitest";
import { chatMessage, weather } from "./clients.test-helper.ts";
import { openWorld, post, recordViolations, type World } from "./gateway-world.test-helper.ts";

const cities = ["Rome", "Oslo", "Lima", "Cairo"];
const call = (city: string): string =>
  `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`;
const tools = [{ type: "function", function: weather }];
type Wire = Readonly<Record<string, unknown>>;

const ask = (world: World, messages: readonly Wire[]) =>
  post(world.gateway, "/v1/chat/completions", { model: "m", messages, tools });

/** Looks up each city, `width` calls per turn; the first turn also has a text. */
function looksAround(width: number) {
  return (prompt: string): string => {
    const results = prompt.split("<tool_response>").length - 1;
    if (results >= cities.length) return "Sunny everywhere.";
    const calls = cities.slice(results, results + width).map(call);
    return (results === 0 ? "Let me look.\n" : "") + calls.join("\n");
  };
}

/** Runs one question to its end, and returns its steps unmerged. */
async function look(world: World, before: readonly Wire[]): Promise<readonly Wire[]> {
  const steps: Wire[] = [];
  for (;;) {
    const message = chatMessage(await ask(world, [...before, ...steps]), false);
    steps.push({ role: "assistant", ...message });
    if (message.tool_calls === undefined || message.tool_calls.length === 0) return steps;
    for (const { id } of message.tool_calls) steps.push({ role: "tool", tool_call_id: id, content: `sun ${id}` });
  }
}

/** The calls of all steps in one message, followed by their results. */
function merged(steps: readonly Wire[]): Wire[] {
  const calls = steps.flatMap((step) => (step["tool_calls"] as readonly unknown[] | undefined) ?? []);
  const results = steps.filter(({ role }) => role === "tool");
  return [{ role: "assistant", content: steps[0]!["content"], tool_calls: calls }, ...results, steps.at(-1)!];
}

test.each([1, 2])("steps of %i calls that come back as one message continue the conversation", async (width) => {
  const world = await openWorld(looksAround(width));
  const opening = [{ role: "user", content: "weather?" }];
  const steps = await look(world, opening);
  const asked = steps.length;
  const next = await ask(world, [...opening, ...merged(steps), { role: "user", content: "thanks" }]);
  expect(next.status, next.text).toBe(200);
  expect(world.gateway.sessions[0]!.counters).toMatchObject({ branched: {}, reencoded: 0 });
  // The conversation continues once more, with its later messages.
  const answer = { role: "assistant", ...chatMessage(next, false) };
  const more = [
    ...opening,
    ...merged(steps),
    { role: "user", content: "thanks" },
    answer,
    { role: "user", content: "bye" },
  ];
  expect((await ask(world, more)).status).toBe(200);
  expect(world.gateway.sessions[0]!.counters).toMatchObject({ branched: {}, reencoded: 0 });
  expect(asked).toBeGreaterThan(4);
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  expect(recordViolations(await world.gateway.end("s1"), world.sampled)).toEqual([]);
  await world.close();
});

test("a merged message with another call, result or order is another history", async () => {
  const world = await openWorld(looksAround(1));
  const opening = [{ role: "user", content: "weather?" }];
  const steps = await look(world, opening);
  const [message, first, ...rest] = merged(steps);
  const calls = message!["tool_calls"] as readonly { id: string; function: Wire }[];
  const other = { ...calls[1]!, function: { ...calls[1]!.function, arguments: '{"city": "Bern"}' } };
  const edited: Wire[][] = [
    [{ ...message, tool_calls: [calls[0], other, ...calls.slice(2)] }, first!, ...rest],
    [message!, { ...first!, content: "rain" }, ...rest],
    [{ ...message, content: "Another text." }, first!, ...rest],
  ];
  for (const [at, history] of edited.entries()) {
    await ask(world, [...opening, ...history, { role: "user", content: `thanks ${at}` }]);
    const { branched } = world.gateway.sessions[0]!.counters;
    expect(Object.values(branched).reduce((sum, count) => sum + count, 0)).toBe(at + 1);
  }
  await world.close();
});
