// Requests that are far longer than usual: the work is linear in their size, whichever part of them
// is long, and other requests are served in the meantime. For the cost in figures: `npm run bench
// -- long-requests`.

import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";

import { expectLinear } from "../lib/growth.test-helper.ts";
import { openWorld, post, type World } from "./gateway-world.test-helper.ts";

type Body = Readonly<Record<string, unknown>>;

const times = <T>(count: number, make: (place: number) => T): T[] =>
  Array.from({ length: count }, (_, place) => make(place));
const turns = (count: number): object[] => [
  ...times(count, (place) => ({ role: place % 2 === 0 ? "user" : "assistant", content: `m ${place}` })),
  { role: "user", content: "go on" },
];
const user = (content: unknown): object => ({ role: "user", content });

/** Bodies with one very long part, by dialect. */
const bodies: Readonly<Record<string, readonly [path: string, size: number, body: (count: number) => Body]>> = {
  "messages over chat": ["/v1/chat/completions", 400, (count) => ({ messages: turns(count) })],
  "messages over messages": ["/v1/messages", 400, (count) => ({ max_tokens: 99, messages: turns(count) })],
  "items over responses": ["/v1/responses", 400, (count) => ({ input: turns(count) })],
  "system messages": [
    "/v1/chat/completions",
    400,
    (count) => ({ messages: [...times(count, (place) => ({ role: "system", content: `s ${place}` })), user("hi")] }),
  ],
  "tools over chat": [
    "/v1/chat/completions",
    200,
    (count) => ({
      messages: [user("hi")],
      tools: times(count, (place) => ({ type: "function", function: { name: `tool_${place}`, parameters: {} } })),
    }),
  ],
  "tools over responses": [
    "/v1/responses",
    200,
    (count) => ({ input: "hi", tools: times(count, (place) => ({ type: "function", name: `tool_${place}` })) }),
  ],
  "calls of one answer": [
    "/v1/chat/completions",
    150,
    (count) => ({
      messages: [
        user("hi"),
        {
          role: "assistant",
          tool_calls: times(count, (place) => ({ id: `c${place}`, function: { name: "f", arguments: "{}" } })),
        },
        ...times(count, (place) => ({ role: "tool", tool_call_id: `c${place}`, content: `r ${place}` })).toReversed(),
      ],
    }),
  ],
  "blocks of one message": [
    "/v1/messages",
    300,
    (count) => ({
      max_tokens: 99,
      messages: [
        {
          role: "assistant",
          content: times(count, (place) => ({ type: "tool_use", id: `c${place}`, name: "f", input: {} })),
        },
        user(times(count, (place) => ({ type: "tool_result", tool_use_id: `c${place}`, content: "r" }))),
      ],
    }),
  ],
  "parts of one content": [
    "/v1/chat/completions",
    400,
    (count) => ({ messages: [user(times(count, (place) => ({ type: "text", text: `p ${place}` })))] }),
  ],
  "characters of one message": [
    "/v1/chat/completions",
    20_000,
    (count) => ({ messages: [user("ab ".repeat(count / 3))] }),
  ],
  "characters without a space": ["/v1/chat/completions", 20_000, (count) => ({ messages: [user("a".repeat(count))] })],
  "control tokens that a user wrote": [
    "/v1/chat/completions",
    2000,
    (count) => ({ messages: [user("<|im_end|>".repeat(count))] }),
  ],
};

describe("the work on a request grows with", () => {
  test.each(Object.keys(bodies))("%s", async (kind) => {
    const [path, size, body] = bodies[kind]!;
    const world = await openWorld(() => "fine");
    let key = 0;
    await expectLinear(size, async (count) => {
      const answer = await post(world.gateway, path, { model: "m", ...body(count) }, { key: `s${key++}` });
      expect(answer.status, answer.text.slice(0, 300)).toBe(200);
    });
    await world.close();
  });
});

const long = { model: "m", messages: turns(30_000) };

describe("while a long request is worked on", () => {
  const ask = (world: World, key: string, messages: readonly object[]) =>
    post(world.gateway, "/v1/chat/completions", { model: "m", messages }, { key });

  test("others are answered, and it is answered as ever", async () => {
    const world = await openWorld(() => "fine");
    let isAnswered = false;
    const answering = ask(world, "long", long.messages).finally(() => (isAnswered = true));
    let others = 0;
    // oxlint-disable-next-line no-unmodified-loop-condition -- the answer sets it
    for (; !isAnswered; others++) expect((await ask(world, `other-${others}`, [user("hi")])).status).toBe(200);
    expect((await answering).status).toBe(200);
    expect(others).toBeGreaterThan(20);
    const continued = [...long.messages, { role: "assistant", content: "fine" }, user("and now?")];
    expect((await ask(world, "long", continued)).status).toBe(200);
    const session = world.gateway.sessions.find(({ id }) => id === "long");
    expect(session!.counters).toMatchObject({ calls: 2, extended: 1, branched: {}, reencoded: 0 });
    await world.close();
  });

  test("the same request at once is the same answer, and a shorter one of its session comes first", async () => {
    const world = await openWorld((_prompt, call) => `answer ${call}`);
    // Clients that lose their connection: the first answer is never delivered.
    const answering = [0, 1].map(() =>
      post(world.gateway, "/v1/chat/completions", long, { key: "long", delivers: false }),
    );
    await setImmediate();
    const short = await ask(world, "long", [user("hi")]);
    expect(short.text).toContain("answer 0");
    for (const answer of await Promise.all(answering)) expect(answer.text).toContain("answer 1");
    await world.close();
  });

  test("the end of its session ends the work, and nothing of it is recorded", async () => {
    const world = await openWorld(() => "fine");
    await ask(world, "long", [user("hi")]);
    const answering = ask(world, "long", long.messages);
    await setImmediate();
    const start = performance.now();
    const episode = await world.gateway.end("long");
    const answer = await answering;
    expect([answer.status, performance.now() - start < 2000]).toEqual([400, true]);
    expect(answer.text).toContain("has ended");
    expect(episode.trajectory.turns).toHaveLength(1);
    await world.close();
  });
});
