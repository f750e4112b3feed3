// Equal requests: an agent that sends the same request several times at once expects as many
// samples, and a client that repeats a request because it lost its connection expects the answer
// that it did not receive.

import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { Episode } from "../core/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { weather } from "./clients.test-helper.ts";
import { openWorld, recordViolations, type World } from "./gateway-world.test-helper.ts";

type Message = { readonly role: string; readonly content: string };
const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const question = [user("a")];

type Asked = {
  readonly messages?: readonly Message[];
  readonly more?: object;
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal;
  /** True if the client receives the whole answer in the end. */
  readonly delivers?: boolean;
};

/** Content of the answer, and a function that reports it as delivered. */
async function handle(world: World, asked: Asked): Promise<{ readonly text: string; readonly delivered: () => void }> {
  const { messages = question, more = {}, idempotencyKey, signal } = asked;
  const answer = await world.gateway.handle({
    method: "POST",
    url: "/v1/chat/completions",
    signal,
    headers: {
      authorization: "Bearer s1",
      "content-type": "application/json",
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
    },
    body: Buffer.from(JSON.stringify({ model: "m", messages, ...more })),
  });
  if (typeof answer.body !== "string") throw new Error("It is streamed.");
  expect(answer.status, answer.body).toBe(200);
  const { choices } = JSON.parse(answer.body) as { readonly choices: readonly [{ readonly message: Message }] };
  return { text: choices[0].message.content, delivered: () => answer.delivered?.() };
}

async function ask(world: World, asked: Asked = {}): Promise<string> {
  const { text, delivered } = await handle(world, asked);
  if (asked.delivers ?? true) delivered();
  return text;
}

const at = (world: World, count: number, asked: (index: number) => Asked): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => ask(world, asked(index))));

async function ended(world: World): Promise<Episode> {
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  const episode = await world.gateway.end("s1");
  expect(recordViolations(episode, world.sampled)).toEqual([]);
  return episode;
}

const numbered = (_prompt: string, call: number): string => `answer ${call}`;

describe("equal requests at once", () => {
  test("are turns of their own, whether they begin a session or continue it, and all are trained", async () => {
    const world = await openWorld(numbered);
    const first = await at(world, 4, () => ({}));
    expect(new Set(first)).toHaveLength(4);
    const next = [...question, assistant(first[2]!), user("b")];
    const second = await at(world, 3, () => ({ messages: next }));
    expect(new Set([...first, ...second])).toHaveLength(7);
    await ask(world, { messages: [...next, assistant(second[1]!), user("c")] });
    const { counters } = world.gateway.sessions[0]!;
    // One turn continues each conversation; the others record that they were requested again.
    expect(counters).toMatchObject({ calls: 8, replayed: 0, extended: 2, branched: { "sampled-again": 5 } });
    const episode = await ended(world);
    const { turns } = episode.trajectory;
    const chosen = turns.findIndex(({ parent }) => parent !== null);
    expect(turns.slice(0, 4).map(({ parent }) => parent)).toEqual([null, null, null, null]);
    const siblings = turns.filter(({ parent }) => parent === turns[chosen]!.parent && parent !== null);
    expect(siblings.map(({ rewriteReason }) => rewriteReason !== null)).toEqual([false, true, true]);
    expect(episodeSamples(episode)).toMatchObject({ dropped: [] });
    expect(episodeSamples(episode).samples).toHaveLength(6);
    await world.close();
  });

  test("with other tools are no repetition of one another", async () => {
    const world = await openWorld(numbered);
    const tools = [{ type: "function", function: weather }];
    await at(world, 2, (index) => (index === 0 ? {} : { more: { tools } }));
    expect(world.gateway.sessions[0]!.counters).toMatchObject({ branched: { "tools-changed": 1 } });
    await at(world, 2, () => ({ messages: [user("another")] }));
    const { branched } = world.gateway.sessions[0]!.counters;
    expect(branched).toEqual({ "tools-changed": 1, "another-conversation": 2 });
    await ask(world, { messages: [user("another")] });
    expect(branched).toMatchObject({ "sampled-again": 1 });
    await world.close();
  });

  test("are one where their keys are equal, also after the answer was delivered and when the gateway began again", async () => {
    const world = await openWorld(numbered);
    const keys = ["one", "two", "one", "one", undefined, "two"];
    const answers = await at(world, keys.length, (index) => ({ idempotencyKey: keys[index] }));
    expect(answers.map((answer) => answers.indexOf(answer))).toEqual([0, 1, 0, 0, 4, 1]);
    expect(await ask(world, { idempotencyKey: "one" })).toBe(answers[0]);
    // The key means nothing for a different request, and an empty key counts as no key.
    const other = await ask(world, { idempotencyKey: "one", messages: [user("b")] });
    const empty = await ask(world, { idempotencyKey: " " });
    expect(new Set([...answers, other, empty])).toHaveLength(5);
    const after = await world.restart();
    expect(await ask(after, { idempotencyKey: "two" })).toBe(answers[1]);
    expect(after.sampled).toHaveLength(0);
    expect(await ask(after)).not.toBe(answers[4]);
    await after.close();
  });

  test("that were all cut off are answered from the record, one answer each", async () => {
    const world = await openWorld(numbered);
    const lost = await at(world, 3, () => ({ delivers: false }));
    const again = await at(world, 4, () => ({}));
    expect(new Set(lost)).toHaveLength(3);
    expect(again.slice(0, 3).toSorted()).toEqual(lost.toSorted());
    expect(lost).not.toContain(again[3]);
    expect(episodeSamples(await ended(world)).dropped).toEqual([]);
    await world.close();
  });
});

type Step =
  | { readonly type: "ask"; readonly key: string | undefined; readonly content: string }
  | { readonly type: "leave"; readonly client: number }
  | { readonly type: "answer" };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    type: fc.constant("ask" as const),
    key: fc.constantFrom(undefined, undefined, "one", "two"),
    content: fc.constantFrom("a", "b"),
  }),
  fc.record({ type: fc.constant("leave" as const), client: fc.nat(20) }),
  fc.record({ type: fc.constant("answer" as const) }),
);

/** Calls whose answers the clients should receive, computed only from the rule. */
function expectedCalls(steps: readonly Step[]): number[] {
  const calls: { readonly of: string; readonly isKeyed: boolean; readonly readers: Set<number>; isRead: boolean }[] =
    [];
  const callOf: number[] = [];
  for (const one of steps) {
    if (one.type === "ask") {
      const of = `${one.content} ${one.key}`;
      const known = calls.findIndex(
        (call) => call.of === of && (call.isKeyed || (call.readers.size === 0 && !call.isRead)),
      );
      if (known === -1) calls.push({ of, isKeyed: one.key !== undefined, readers: new Set(), isRead: false });
      const taken = known === -1 ? calls.length - 1 : known;
      calls[taken]!.readers.add(callOf.length);
      callOf.push(taken);
    } else if (one.type === "leave") {
      for (const { readers } of calls) readers.delete(one.client % Math.max(1, callOf.length));
    } else {
      for (const call of calls) {
        call.isRead ||= call.readers.size > 0;
        call.readers.clear();
      }
    }
  }
  return callOf;
}

test("two clients have one answer only with equal keys, or if the first had gone when the second came", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 14 }), async (random) => {
      const steps: readonly Step[] = [...random, { type: "answer" }];
      let open = (): void => undefined;
      let gate: Promise<void>;
      const shut = (): void => void (gate = new Promise((resolve) => (open = resolve)));
      shut();
      const world = await openWorld(async (_prompt, call) => {
        await gate;
        return `answer ${call}`;
      });
      type Client = { readonly leaves: AbortController; isAnswered: boolean; readonly answer: Promise<string> };
      const clients: Client[] = [];
      for (const one of steps) {
        if (one.type === "ask") {
          const leaves = new AbortController();
          const asked = { messages: [user(one.content)], idempotencyKey: one.key, signal: leaves.signal };
          const client: Client = {
            leaves,
            isAnswered: false,
            answer: handle(world, asked).then(({ text, delivered }) => {
              client.isAnswered = true;
              if (!leaves.signal.aborted) delivered();
              return text;
            }),
          };
          clients.push(client);
          await vi.waitFor(
            () => {
              const { calls, replayed } = world.gateway.sessions[0]!.counters;
              expect(calls + replayed).toBe(clients.length);
            },
            { interval: 1 },
          );
        } else if (one.type === "leave") {
          const client = clients[one.client % Math.max(1, clients.length)];
          if (client?.isAnswered === false) client.leaves.abort();
        } else {
          open();
          await Promise.all(clients.map(({ answer }) => answer));
          shut();
        }
      }
      const answers = await Promise.all(clients.map(({ answer }) => answer));
      const expected = expectedCalls(steps);
      expect(answers.map((answer) => answers.indexOf(answer))).toEqual(expected.map((call) => expected.indexOf(call)));
      expect(world.sampled).toHaveLength(new Set(expected).size);
      if (clients.length > 0) await ended(world);
      await world.close();
    }),
    { numRuns: process.env["FULL"] === "1" ? 300 : 40 },
  );
});
