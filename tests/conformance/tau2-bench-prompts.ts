// Records of τ²-bench's prompts. Upstream's sentences are taken from the golden files themselves,
// where one record shows them whole; the others, of which only digests are recorded, must then
// agree.

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  agentPrompt,
  Conversation,
  type DomainData,
  goldAgentPrompt,
  isSoloTask,
  judgeRequest,
  readMessages,
  scenarioText,
  soloAgentPrompt,
  soloStopTool,
  stopToken,
  type Tau2Message,
  type Tau2Task,
  type Tau2Prompts,
  userPrompt,
  visibleTo,
} from "#src/environments/tau2-bench/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";
import { readGoldenFile } from "./golden-file.ts";
import { asObject, newWorld, pick, type Played } from "./tau2-bench-worlds.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** The sentences from the records of a folder that show them; empty if none does. */
export async function textsIn(folder: string): Promise<Tau2Prompts> {
  const found: Record<keyof Tau2Prompts, string> = { agent: "", goldAgent: "", soloAgent: "", judge: "" };
  const kinds: Readonly<Record<string, keyof Tau2Prompts>> = {
    agent_system_prompt: "agent",
    gt_agent_prompt: "goldAgent",
    solo_agent_prompt: "soloAgent",
  };
  for (const file of await readdir(folder, { recursive: true })) {
    if (!/(prompts|llm-requests)[^/]*\.jsonl$/.test(file)) continue;
    for (const record of await readGoldenFile(join(folder, file))) {
      const text = record.get("text");
      const kind = kinds[record.get("what") as string];
      const instruction =
        typeof text === "string" ? /^<instructions>\n([^]*?)\n<\/instructions>/.exec(text)?.[1] : undefined;
      if (kind !== undefined && instruction !== undefined) found[kind] = instruction;
      if (record.has("checks")) found.judge = messageOf(record, 0);
    }
  }
  return found;
}

/**
 * The file of descriptions of the bank's tools, by its path, as far as the golden files show them: a
 * folder that was not prepared from a checkout lacks it.
 */
export async function bankToolDocs(folder: string): Promise<ReadonlyMap<string, string>> {
  const sides = { agent: new Map<string, JsonValue>(), user: new Map<string, JsonValue>() };
  for (const file of await readdir(folder, { recursive: true })) {
    const path = join(folder, file);
    if (!file.endsWith(".jsonl") || !(await readFile(path, "utf8")).includes('"read_log_allowlist"')) continue;
    for (const record of await readGoldenFile(path)) {
      for (const step of (record.get("steps") as JsonObject[] | undefined) ?? []) {
        const content = step.get("content");
        if (typeof content === "string") addToolDoc(sides, content);
      }
    }
  }
  const text = dumpJson(new Map(Object.entries(sides)));
  return new Map([["banking_knowledge/discoverable_tools.json", text]]);
}

type Docs = { readonly agent: Map<string, JsonValue>; readonly user: Map<string, JsonValue> };

/** Restores the docstring of a tool from what its unlocking printed. */
function addToolDoc({ agent, user }: Docs, content: string): void {
  const given = /^Tool given to user: (\w+)\nDescription: ([^]*?)\nArguments: /.exec(content);
  if (given !== null) user.set(given[1]!, given[2]!);
  const [, name, description, listed] =
    /^Tool unlocked: (\w+)\nDescription: ([^]*?)\n\nTool: [^]*?\nParameters:\n([^]*?)\n\nYou can now/.exec(content) ??
    [];
  if (name === undefined) return;
  const parameters = [...listed!.matchAll(/^ {2}- (\w+): (.*?) \((required|optional)\) - (.*)$/gm)].map(
    ([, parameter, type, need, text]) =>
      `    ${parameter} (${type}${need === "optional" ? ", optional" : ""}): ${text}`,
  );
  agent.set(name, [description, ...(parameters.length === 0 ? [] : ["", "Args:", ...parameters])].join("\n"));
}

/** The bank's policy with one way to the documents, in a task. */
export function playBankPolicy(data: DomainData, task: Tau2Task, record: JsonObject): Played {
  return { expected: pick(record, ["sha256"]), actual: asObject({ sha256: sha256(data.policyFor(task)) }) };
}

function messageOf(record: JsonObject, index: number): string {
  return messagesOf((record.get("calls") as JsonObject[])[0]!)[index]!.get("content") as string;
}

const messagesOf = (call: JsonObject): JsonObject[] =>
  (call.get("request") as JsonObject).get("messages") as JsonObject[];

type Told = { readonly record: JsonObject; readonly texts: Tau2Prompts };

/** Runs one prompt; `null` for a record of a prompt that we do not have. */
export function playPrompt(data: DomainData, task: Tau2Task | null, { record, texts }: Told): Played | null {
  const policy = (record.get("policy") as string | undefined) ?? data.policy;
  switch (record.get("what")) {
    case "agent_system_prompt":
      return compareText(record, agentPrompt(texts.agent, policy));
    case "gt_agent_prompt":
      return compareText(record, goldAgentPrompt(texts.goldAgent, policy, task!) ?? "");
    case "solo_agent_prompt": {
      const tools = [...data.tools, ...data.userTools].map(({ name }) => name);
      const played = compareText(record, soloAgentPrompt(texts.soloAgent, data.soloPolicy ?? "", task!));
      const { expected, actual } = played as { expected: JsonObject; actual: JsonObject };
      return { expected: expected.set("tools", record.get("tools")!), actual: actual.set("tools", [...tools, "done"]) };
    }
    case "user": {
      const guidelines = data.userTools.length > 0 ? data.userGuidelines.tools : data.userGuidelines.plain;
      const [scenario, prompt] = [scenarioText(task!), userPrompt(guidelines, scenarioText(task!))];
      const actual = asObject({
        scenario,
        scenario_sha256: sha256(scenario),
        system_prompt: prompt,
        system_prompt_sha256: sha256(prompt),
      });
      const expected = pick(record, [...actual.keys()]);
      return { expected, actual: pick(actual, [...expected.keys()]) };
    }
    default:
      return null;
  }
}

function compareText(record: JsonObject, text: string): Played {
  const actual = asObject({ text, sha256: sha256(text), chars: Array.from(text).length });
  const expected = pick(record, [...actual.keys()]);
  return { expected, actual: pick(actual, [...expected.keys()]) };
}

/** The same user at run time, with the instruction to be brief: the record has its prompt whole. */
export function playBriefUser(data: DomainData, record: JsonObject): Played {
  return { expected: record.get("text")!, actual: userPrompt(data.userGuidelines.plain, "I") };
}

/** Number of tasks that an agent with the solution, and one without a user, can run. */
export function playValidTasks(data: DomainData, tasks: readonly Tau2Task[], record: JsonObject): Played {
  const gt = tasks.filter((task) => goldAgentPrompt("", "", task) !== null).length;
  const canSolo = data.domain.soloRefusal === null;
  const solo = canSolo ? tasks.filter(isSoloTask).length : 0;
  return { expected: pick(record, ["gt", "solo"]), actual: asObject({ gt, solo }) };
}

const chatOf = (message: Tau2Message, side: "assistant" | "user"): JsonObject => {
  const { content } = message;
  if (message.role === "tool") return asObject({ role: "tool", content, tool_call_id: message.id });
  // Each side's model has the role of the assistant in its own prompt.
  if (message.role !== side) return asObject({ role: "user", content });
  const calls = message.toolCalls?.map(({ id, name, arguments: given }) =>
    asObject({
      id,
      name,
      function: asObject({ name, arguments: dumpJson(given, { ensureAscii: true }) }),
      type: "function",
    }),
  );
  return asObject({ role: "assistant", content, tool_calls: calls ?? null });
};

/** Every request of a scripted conversation: messages and tools. */
export function playRequests(data: DomainData, task: Tau2Task, { record, texts }: Told): Played {
  const isSolo = record.get("solo") === true;
  const conversation = new Conversation(newWorld(data, { isSolo }), task, {
    isAgentStop: ({ content }) => isSolo && (content?.includes(stopToken) ?? false),
  });
  const prompts = {
    assistant: isSolo
      ? soloAgentPrompt(texts.soloAgent, data.soloPolicy ?? "", task)
      : agentPrompt(texts.agent, data.policy),
    user: userPrompt(
      data.userTools.length > 0 ? data.userGuidelines.tools : data.userGuidelines.plain,
      scenarioText(task),
    ),
  };
  const names = (tools: DomainData["tools"]): string[] => tools.map(({ name }) => name);
  const agentTools = isSolo ? [...names(data.tools), ...names(data.userTools), soloStopTool] : names(data.tools);
  const requests: JsonObject[] = [];
  let count = 0;
  for (const call of record.get("calls") as JsonObject[]) {
    const { state } = conversation;
    if (state.type === "over") break;
    const { speaker } = state;
    const seen = visibleTo(speaker, conversation.messages).map((message) => chatOf(message, speaker));
    const tools = speaker === "user" ? names(data.userTools) : agentTools;
    const messages = [asObject({ role: "system", content: prompts[speaker] }), ...seen];
    requests.push(
      asObject({ call: speaker === "user" ? "user" : "agent", messages, tools: tools.length > 0 ? tools : null }),
    );
    const response = call.get("response") as JsonObject;
    const calls = (response.get("calls") as [string, JsonObject][] | undefined)?.map(([name, given]) => ({
      id: `call_${count++}`,
      name,
      arguments: given,
      requestor: speaker,
    }));
    const stops = isSolo && (calls?.some(({ name }) => name === soloStopTool) ?? false);
    const content = stops ? stopToken : ((response.get("say") as string | undefined) ?? null);
    conversation.say({ role: speaker, content, toolCalls: stops ? null : (calls ?? null) });
  }
  return { expected: (record.get("calls") as JsonObject[]).map(expectedRequest), actual: requests };
}

/** A repeated system prompt is recorded as the number of the first call that has it. */
function expectedRequest(call: JsonObject, _: number, calls: readonly JsonObject[]): JsonObject {
  const request = call.get("request") as JsonObject;
  const [system, ...messages] = request.get("messages") as JsonObject[];
  const same = /^<same system prompt as call (\d+)>$/.exec(system!.get("content") as string)?.[1];
  const told = same === undefined ? system! : messagesOf(calls[Number(same)]!)[0]!;
  return asObject({ call: call.get("call")!, messages: [told, ...messages], tools: request.get("tools")! });
}

/** Request to the judge. */
export function playJudgeRequest(record: JsonObject): Played {
  const messages = readMessages(record.get("input")!, "the record");
  const assertions = record.get("assertions") as JsonValue[] as string[];
  return { expected: messageOf(record, 1), actual: judgeRequest(messages, assertions) };
}
