// Requests of coding programs that started a sub-agent, recorded by
// `scripts/verify/gateway-sub-agents.mjs` and sent to the gateway again. Their texts are numbers.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Episode, Lineage } from "../core/index.ts";
import { toAtifRow, toSlimeRow } from "../export/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { clientAgentOf } from "./client-agents.ts";
import { openApiWorld } from "./forward/api-world.test-helper.ts";
import { weather } from "./clients.test-helper.ts";
import { openWorld, recordViolations, send, type World } from "./gateway-world.test-helper.ts";

type Recorded = {
  readonly version: string;
  readonly answers: readonly string[];
  readonly requests: readonly {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: unknown;
  }[];
};

const folder = join(import.meta.dirname, "../../tests/goldens/gateway-sub-agents");
const recorded = readdirSync(folder).map((file) => {
  const record = JSON.parse(readFileSync(join(folder, file), "utf8")) as Recorded;
  return { name: file.replace(".json", ""), ...record };
});

describe.each(recorded)("$version", ({ name, answers, requests }) => {
  test.each([true, false])("has a main agent and a sub-agent (with its ids: %s)", async (hasIds) => {
    const { lineages, episode } = await play({ answers, requests, hasIds }, "all");
    const known = lineages.map(({ kind, parent, turns }) => ({ kind, parent, turns }));
    // Gemini CLI ends a sub-agent by a call that it first refuses; opencode begins with a title.
    const sub = name === "gemini" ? [1, 2, 3] : [1, 2];
    const after = (sub.at(-1) ?? 0) + 1;
    const expected: Record<string, unknown> = {
      opencode: [
        { kind: "side", parent: hasIds ? 2 : null, turns: [0] },
        { kind: "main", parent: null, turns: [1, 4] },
        { kind: "sub-agent", parent: 2, turns: [2, 3] },
      ],
      codex: [
        { kind: "main", parent: null, turns: [0, 1, 4] },
        { kind: "sub-agent", parent: 1, turns: [2, 3] },
      ],
    };
    const usual = [
      { kind: "main", parent: null, turns: [0, after] },
      { kind: "sub-agent", parent: 1, turns: sub },
    ];
    expect(known).toEqual(expected[name] ?? usual);
    const ids = new Set(requests.map(({ headers }) => clientAgentOf(headers)?.agent ?? null));
    expect(new Set(lineages.map(({ agent }) => agent))).toEqual(hasIds ? ids : new Set([null]));
    expect(episode.trajectory.turns).toHaveLength(requests.length);
  });

  test("is a trajectory of ATIF whose sub-agents are trajectories of their own", async () => {
    const { episode, lineages } = await play({ answers, requests, hasIds: true }, "all");
    const row = toAtifRow({ episode, index: 0, groupIndex: 0, run: null }, null);
    const others = lineages.filter(({ kind }) => kind !== "main");
    expect(row.subagent_trajectories).toMatchObject(
      others.map(({ id, kind, turns }) => ({
        trajectory_id: `${episode.id}/agent-${id}`,
        extra: { kind, turns },
        subagent_trajectories: null,
      })),
    );
    // Every turn is in one trajectory, and with the tokens that it sampled.
    const sampled = [row, ...(row.subagent_trajectories ?? [])].flatMap(({ steps }) =>
      (steps as readonly { readonly metrics?: { readonly completion_token_ids: readonly number[] } }[]).flatMap(
        ({ metrics }) => (metrics === undefined ? [] : [metrics.completion_token_ids.join(" ")]),
      ),
    );
    const turns = episode.trajectory.turns.map(({ sampledTokens }) => sampledTokens.join(" "));
    expect(sampled.toSorted()).toEqual(turns.toSorted());
  });

  test("trains its main agent alone, or weights rows by their tokens", async () => {
    const hasIds = true;
    const all = await play({ answers, requests, hasIds }, "all");
    const weightsOf = ({ episode }: { readonly episode: Episode }) => {
      const { samples } = episodeSamples(episode);
      const count = (mask: Uint8Array): number => mask.reduce((sum, one) => sum + one, 0);
      const place = { index: 0, groupIndex: 0, sampleCount: samples.length };
      const facts = samples.map((sample) => toSlimeRow(sample, { ...place, episode }, { decode: () => "" }).metadata);
      return samples.map(({ lossMask }, at) => ({ tokens: count(lossMask), ...facts[at]! }));
    };
    const rows = weightsOf(all);
    expect(rows.map(({ weight }) => weight)).toEqual(rows.map(() => 1 / rows.length));
    expect(new Set(rows.map(({ lineage }) => lineage?.kind))).toEqual(new Set(all.lineages.map(({ kind }) => kind)));

    const main = await play({ answers, requests, hasIds }, "main");
    expect(weightsOf(main).map(({ lineage, weight }) => [lineage?.kind, lineage?.credit, weight])).toEqual([
      ["main", "main", 1],
    ]);
    const left = main.lineages.filter(({ kind }) => kind !== "main").flatMap(({ turns }) => turns);
    expect(episodeSamples(main.episode).dropped.map(({ turn, reason }) => [turn, reason])).toEqual(
      left.toSorted((one, other) => one - other).map((turn) => [turn, "uncredited"]),
    );

    const byTokens = weightsOf(await play({ answers, requests, hasIds }, "by-tokens"));
    const total = byTokens.reduce((sum, { tokens }) => sum + tokens, 0);
    expect(byTokens.map(({ weight }) => weight)).toEqual(byTokens.map(({ tokens }) => tokens / total));
  });
});

describe("the agents of a session", () => {
  const user = (content: string) => ({ role: "user", content });
  const assistant = (content: string) => ({ role: "assistant", content });
  const tools = [{ type: "function", function: weather }];
  type Ask = {
    readonly messages: readonly unknown[];
    readonly tools?: unknown;
    readonly agent?: string;
    readonly parent?: string;
  };

  /** Kinds, parents and turns after a session's requests; empty for a single agent. */
  async function agentsOf(
    asks: readonly Ask[],
    policy: (prompt: string, at: number) => string = (_prompt, at) => `answer ${at}`,
  ) {
    const world = await openWorld(policy);
    for (const { messages, agent, parent, tools: own = tools } of asks) {
      const headers = {
        "content-type": "application/json",
        authorization: "Bearer s1",
        ...(agent !== undefined && { "x-agent-id": agent }),
        ...(parent !== undefined && { "x-parent-agent-id": parent }),
      };
      const body = { model: "m", messages, tools: own };
      const { status, text } = await send(world.gateway, {
        method: "POST",
        url: "/v1/chat/completions",
        headers,
        body,
      });
      expect(status, text).toBe(200);
    }
    return (await ended(world)).lineages.map(({ kind, parent, turns }) => [kind, parent, turns]);
  }

  test("are one if it votes, edits its history, changes its tools, or begins again from its summary", async () => {
    const summary =
      "A summary of the conversation so far, which is long enough to be recognized where a later prompt quotes it.";
    const policy = (prompt: string, at: number): string => (prompt.includes("summarise") ? summary : `answer ${at}`);
    const asks: Ask[] = [
      { messages: [user("do it")] },
      { messages: [user("do it")] },
      { messages: [user("do it"), assistant("answer 0"), user("edited")] },
      { messages: [user("do it"), assistant("answer 0"), user("more")], tools: [] },
      { messages: [{ role: "system", content: "be brief" }, user("do it"), assistant("answer 0"), user("summarise")] },
      { messages: [user(`Continue from: ${summary}`), user("next")] },
    ];
    expect(await agentsOf(asks, policy)).toEqual([]);
  });

  test("are told by calls that start them, by answers that come back, and by the program's ids", async () => {
    const start = (city: string): string =>
      `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`;
    const policy = (_prompt: string, at: number): string =>
      at === 0 ? start("look at the harbour") : `the answer of ${at}`;
    const call = {
      id: "call_0_0",
      type: "function",
      function: { name: "get_weather", arguments: '{"city": "look at the harbour"}' },
    };
    const result = (content: string) => ({ role: "tool", tool_call_id: "call_0_0", content });
    const asks: Ask[] = [
      { messages: [user("go")] },
      { messages: [user("please look at the harbour")] },
      { messages: [user("a question of its own")], tools: [] },
      {
        messages: [user("go"), { role: "assistant", content: "", tool_calls: [call] }, result("fine; the answer of 2")],
      },
      { messages: [user("a name for this")], tools: [] },
    ];
    expect(await agentsOf(asks, policy)).toEqual([
      ["main", null, [0, 3]],
      ["sub-agent", 1, [1]],
      ["sub-agent", 1, [2]],
      ["side", null, [4]],
    ]);
    const named: Ask[] = [
      { messages: [user("a title")], tools: [], agent: "root" },
      { messages: [user("go")], agent: "root" },
      { messages: [user("go")], agent: "one", parent: "root" },
      { messages: [user("go"), assistant("answer 1"), user("forked")], agent: "two", parent: "one" },
      { messages: [user("anything else")], agent: "root" },
    ];
    expect(await agentsOf(named)).toEqual([
      ["side", 2, [0]],
      ["main", null, [1, 4]],
      ["sub-agent", 2, [2]],
      ["sub-agent", 3, [3]],
    ]);
  });

  test("have ids from outside, which may be too long, unknown, or name each other", async () => {
    const asks: Ask[] = [
      { messages: [user("one")], agent: "a", parent: "b" },
      { messages: [user("two")], agent: "b", parent: "a" },
      { messages: [user("three")], agent: "c", parent: "unknown" },
      { messages: [user("four")], agent: "d".repeat(500) },
    ];
    expect(await agentsOf(asks)).toEqual([
      ["main", null, [0]],
      ["sub-agent", 1, [1]],
      ["side", null, [2]],
      ["side", null, [3]],
    ]);
    expect(clientAgentOf({ "x-agent-id": ["a", "b"] })).toBeNull();
    expect(clientAgentOf({ "x-session-id": "s", "user-agent": "curl/8" })).toBeNull();
  });
});

const ask = { method: "POST", url: "/v1/chat/completions" } as const;
const headersOf = (agent: string, parent?: string) => ({
  "content-type": "application/json",
  authorization: "Bearer s1",
  "x-agent-id": agent,
  ...(parent !== undefined && { "x-parent-agent-id": parent }),
});
const saying = (content: string) => ({ model: "m", messages: [{ role: "user", content }], tools: [{ type: "function", function: weather }] }); // prettier-ignore

test("agents are counted again by a session that a killed process had begun to end", async () => {
  const world = await openWorld((_prompt, at) => `answer ${at}`);
  await send(world.gateway, { ...ask, headers: headersOf("root"), body: saying("go") });
  await send(world.gateway, { ...ask, headers: headersOf("one", "root"), body: saying("harbour") });
  await world.store.record("s1", { type: "lineages", credit: "main", lineages: [] });
  const restarted = await world.restart();
  const episode = await restarted.gateway.end("s1");
  await restarted.close();
  expect(episode.events.filter(({ type }) => type === "lineages")).toMatchObject([
    {
      credit: "all",
      lineages: [
        { kind: "main", agent: "root" },
        { kind: "sub-agent", parent: 1 },
      ],
    },
  ]);
});

test("agents of a program whose model is behind an API are recorded, and its conversation is the main one's", async () => {
  const world = await openApiWorld({
    policy: (prompt) => (prompt.includes("harbour") ? "of the sub-agent" : "of the main one"),
  });
  await send(world.gateway, { ...ask, headers: headersOf("root"), body: saying("go") });
  await send(world.gateway, { ...ask, headers: headersOf("one", "root"), body: saying("harbour") });
  const restarted = await world.restart();
  const episode = await restarted.gateway.end("s1");
  await restarted.close();
  expect(episode.events.find(({ type }) => type === "lineages")).toMatchObject({
    lineages: [
      { kind: "main", agent: "root", turns: [0] },
      { kind: "sub-agent", parent: 1, turns: [1] },
    ],
  });
  expect(episode.messages.map(({ content }) => content)).toEqual(["go", "of the main one"]);
});

async function play(
  { answers, requests, hasIds }: Pick<Recorded, "answers" | "requests"> & { readonly hasIds: boolean },
  credit: "all" | "main" | "by-tokens",
): Promise<{ readonly episode: Episode; readonly lineages: readonly Lineage[] }> {
  const world = await openWorld((_prompt, at) => answers[at]!.replace("<|im_end|>", ""), { credit });
  for (const { url, headers, body } of requests) {
    const { status, text } = await send(world.gateway, {
      method: "POST",
      url,
      headers: { ...(hasIds && headers), "content-type": "application/json", authorization: "Bearer s1" },
      body,
    });
    expect(status, text).toBe(200);
  }
  return ended(world);
}

async function ended(world: World): Promise<{ readonly episode: Episode; readonly lineages: readonly Lineage[] }> {
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  const episode = await world.gateway.end("s1");
  expect(recordViolations(episode, world.sampled)).toEqual([]);
  await world.close();
  return { episode, lineages: episode.events.flatMap((event) => (event.type === "lineages" ? event.lineages : [])) };
}
