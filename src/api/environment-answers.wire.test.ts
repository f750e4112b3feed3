// Calls that an environment answers itself reach it in every form: sampled as tokens, made by an
// API model, or made by an outside program whose model a gateway samples; in this process, and over
// each protocol of our server. The texts are those of the τ²-bench reference
// (`orchestrator.jsonl` has the first two), through the real parsers.

import { Opened } from "../lib/opened.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createToolCalling } from "../agents/index.ts";
import { chatAgent, type ChatModel } from "../chat-models/index.ts";
import { type EnvironmentSource, type Episode, freeUsage, type Task } from "../core/index.ts";
import { createScriptedEngine } from "../engines/scripted/index.ts";
import { createGateway } from "../gateway/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { runChatEpisode, runEpisode } from "../rollout/index.ts";
import { createFileRunStore } from "../store/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { scriptedUsers } from "../users/index.ts";
import { readHostedEnvironment, serveEnvironment } from "./env-server.ts";
import { openWorlds } from "./gateway-worlds.ts";
import { loadEnvironment } from "./load-environment.ts";

type Called = { readonly name: string; readonly arguments: object };

const data = sharedFolder("tau2-bench");
const env = "tau2-bench/mock";
const lines = ["Create a task.", "Go on.", "Bye ###STOP###"];

/** Calls of the agent, and the answers of the reference. */
const answered: readonly (readonly [call: Called, text: string])[] = [
  [{ name: "nope", arguments: {} }, "Error: Tool 'nope' not found."],
  [{ name: "check_notifications", arguments: {} }, "Error: Tool 'check_notifications' not found."],
  [{ name: "Create_Task", arguments: { user_id: "user_1", title: "x" } }, "Error: Tool 'Create_Task' not found."],
  [{ name: "create_task", arguments: { user_id: "nobody", title: "x" } }, "Error: User nobody not found"],
  [
    { name: "create_task", arguments: {} },
    "Error: MockTools.create_task() missing 2 required positional arguments: 'user_id' and 'title'",
  ],
  [
    { name: "get_users", arguments: { note: 1 } },
    "Error: MockTools.get_users() got an unexpected keyword argument 'note'",
  ],
];
/** Names that a server uses for tools of its own if the client is not ours. */
const servedNames = ["respond", "finish"].map(
  (name) => [{ name, arguments: { message: "x" } }, `Error: Tool '${name}' not found.`] as const,
);
/** Ten failures end a conversation. */
const tenOf = (rows: readonly (readonly [Called, string])[]) =>
  Array.from({ length: 10 }, (_, at) => rows[at % rows.length]!);

const tokenizer = createReadableTokenizer();
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
const written = (calls: readonly Called[]): string =>
  calls.map((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`).join("\n");
const engineOf = (messages: readonly (readonly Called[])[]) =>
  createScriptedEngine({ tokenizer, script: messages.map((calls) => `${written(calls)}<|im_end|>`) });

const parts = (environment: EnvironmentSource) => ({
  environment,
  strategy: createToolCalling({ calls: "several" }),
  user: scriptedUsers(lines),
});
type Messages = readonly (readonly Called[])[];

const runSampled = (
  environment: EnvironmentSource,
  messages: Messages,
  task = firstOf(environment),
): Promise<Episode> => runEpisode(task, { ...parts(environment), engine: engineOf(messages), renderer });

function runChat(environment: EnvironmentSource, messages: Messages, task = firstOf(environment)): Promise<Episode> {
  let said = 0;
  const chat: ChatModel = {
    name: "chat",
    complete: async () => ({
      text: "",
      reasoning: null,
      isTruncated: false,
      usage: freeUsage,
      toolCalls: messages[said++]!.map((call, at) => ({
        id: `${said}_${at}`,
        name: call.name,
        argumentsText: JSON.stringify(call.arguments),
      })),
    }),
  };
  return runChatEpisode(task, { ...parts(environment), agent: chatAgent({ chat }) });
}

function firstOf(environment: EnvironmentSource): Task {
  return environment.taskset("base").task(0);
}

const resultsOf = ({ events }: Episode): string[] =>
  events.flatMap((event) => (event.type === "tool-result" ? [event.result.text] : []));

function expectAnswers(episode: Episode, rows: readonly (readonly [Called, string])[]): void {
  expect(resultsOf(episode)).toEqual(rows.map(([, text]) => text));
  expect(episode.grade?.info.get("termination_reason")).toBe("too_many_errors");
  expect(episode).toMatchObject({ outcome: "completed", reward: 0, failure: null });
}

let cwd = "";
const user = { user: "scripted", userLines: "lines.txt" } as const;
const closing: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  await writeFile(join(cwd, user.userLines), lines.join("\n"));
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  await rm(cwd, { recursive: true });
});
const load = async (name: string, more: object = {}): Promise<EnvironmentSource> =>
  (await loadEnvironment(name, { cwd, variables: {}, ...more } as never)).source;

describe.skipIf(data === null)("what τ²-bench answers itself (skipped without ../shared/tau2-bench)", () => {
  const several = (rows: readonly (readonly [Called, string])[]) => [
    rows.slice(0, 4).map(([call]) => call),
    ...rows.slice(4).map(([call]) => [call]),
  ];

  it.each([
    ["sampled as tokens", runSampled],
    ["said by a model behind an API", runChat],
  ])("reaches it and is counted: %s", async (_, run) => {
    const source = await load(env, { settings: { data } });
    const rows = tenOf([...answered, ...servedNames]);
    expectAnswers(
      await run(
        source,
        rows.map(([call]) => [call]),
      ),
      rows,
    );
    expectAnswers(await run(source, several(rows)), rows);
  });

  it.each([["mcp"], ["openenv"]])("reaches it through our server: %s", async (protocol) => {
    const server = await serveEnvironment({ env, data: data, split: "base", ...user, listen: "127.0.0.1:0", cwd });
    closing.push(() => server.close());
    const source = await load(protocol === "mcp" ? `mcp:${server.url}/mcp` : `openenv:${server.url}`);
    const rows = tenOf([...answered, ...servedNames]);
    const messages = rows.map(([call]) => [call]);
    expectAnswers(await runSampled(source, messages), rows);
    expectAnswers(await runChat(source, messages), rows);
  });

  it("reaches it where an outside program calls the tools that its model sampled", async () => {
    const opened = new Opened();
    closing.push(() => opened.close());
    const hosted = await readHostedEnvironment({ env, data: data, split: "base", ...user, cwd }, opened);
    const worlds = openWorlds(hosted, { maxSessions: 4, idleMs: 60_000 });
    closing.push(() => worlds.closeAll());
    const rows = tenOf(answered);
    const store = createFileRunStore(join(cwd, "run"));
    await store.begin(new Map<string, never>([["format", 4 as never]]));
    closing.push(() => store.close(new Map<string, never>([["format", 4 as never]])));
    const engine = engineOf([...rows.map(([call]) => [call]), [rows[0]![0]], [rows[0]![0]]]);
    const gateway = createGateway({ engine, renderer, store, worlds }, {});
    const listener = await gateway.listen({ host: "127.0.0.1", port: 0 });
    closing.push(() => listener.close());
    const post = async (path: string, body: object, key = ""): Promise<Record<string, never>> =>
      (await (
        await fetch(`${listener.url}${path}`, {
          method: "POST",
          body: JSON.stringify(body),
          headers: { "content-type": "application/json", ...(key === "" ? {} : { authorization: `Bearer ${key}` }) },
        })
      ).json()) as Record<string, never>;
    const session = await post("/v1/sessions", { environment_task: "0" });
    const client = new Client({ name: "an agent", version: "1" }, {});
    await client.connect(new StreamableHTTPClientTransport(new URL(session["mcp_url"]!)));
    const { tools } = await client.listTools();
    const functions = tools.map(({ name, inputSchema }) => ({
      type: "function",
      function: { name, parameters: inputSchema },
    }));
    type Message = { readonly content: string | null; readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } }[] }; // prettier-ignore
    const ask = async (messages: readonly object[], more: object = {}, key = session["key"]!): Promise<Message> => {
      const answer = await post("/v1/chat/completions", { model: "policy", messages, tools: functions, ...more }, key);
      return (answer["choices"] as unknown as readonly { readonly message: Message }[])[0]!.message;
    };
    const messages: object[] = [{ role: "user", content: "Create a task." }];
    const seen: string[] = [];
    for (const [call] of rows) {
      const said = await ask(messages);
      const [made] = said.tool_calls ?? [];
      expect(made?.function.name).toBe(call.name);
      const { content } = await client.callTool({
        name: made!.function.name,
        arguments: JSON.parse(made!.function.arguments) as Record<string, unknown>,
      });
      const { text } = (content as readonly { readonly text: string }[])[0]!;
      seen.push(text);
      messages.push({ role: "assistant", ...said }, { role: "tool", tool_call_id: made!.id, content: text });
    }
    const over = "\n[The episode is over; call finish.]";
    expect(seen).toEqual(rows.map(([, text], at) => (at === 9 ? text + over : text)));
    // A client that allows no call gets none, and without a world an unknown tool remains a
    // problem.
    expect((await ask(messages, { tool_choice: "none" })).tool_calls ?? []).toEqual([]);
    const plain = await post("/v1/sessions", {});
    expect((await ask(messages.slice(0, 1), {}, plain["key"])).tool_calls ?? []).toEqual([]);
    await client.close();
    expect(await post(`/v1/sessions/${String(session["id"])}/end`, {})).toMatchObject({
      outcome: "completed",
      reward: 0,
    });
  });
});

const tauData = sharedFolder("tau-bench");
describe.skipIf(tauData === null)("what τ-bench answers itself (skipped without ../shared/tau-bench)", () => {
  it.each([
    ["sampled as tokens", runSampled],
    ["said by a model behind an API", runChat],
  ])("reaches it, the first call of an action only: %s", async (_, run) => {
    const rows: readonly (readonly [call: Called, text: string])[] = [
      [{ name: "nope", arguments: {} }, "Unknown action nope"],
      [{ name: "Get_Order_Details", arguments: {} }, "Unknown action Get_Order_Details"],
      [
        { name: "get_order_details", arguments: {} },
        "Error: GetOrderDetails.invoke() missing 1 required positional argument: 'order_id'",
      ],
      [
        { name: "get_order_details", arguments: { id: "#W1" } },
        "Error: GetOrderDetails.invoke() got an unexpected keyword argument 'id'",
      ],
      [{ name: "transfer_to_human_agents", arguments: {} }, "Error: TransferToHumanAgents.invoke() missing 1 required positional argument: 'summary'"], // prettier-ignore
    ];
    const source = await load("tau-bench/retail", { settings: { data: tauData } });
    const ignored = { name: "list_all_product_types", arguments: {} };
    const episode = await run(
      source,
      rows.map(([call]) => [call, ignored]),
      source.taskset("dev").task(0),
    );
    expect(resultsOf(episode)).toEqual(rows.map(([, text]) => text));
    // A call that ends a conversation ends it even if the call fails, as in upstream.
    expect(episode).toMatchObject({ stopReason: "tool_ended", failure: null });
  });
});
