// Records of conversations of τ²-bench: scripted sides under the rules of turn order.

import {
  Conversation,
  type DomainData,
  type Handed,
  type SpokenMessage,
  stopToken,
  type Tau2Message,
  type Tau2Task,
  type ToolMessage,
} from "#src/environments/tau2-bench/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import { asObject, digestsOf, newWorld, pick, type Played } from "./tau2-bench-worlds.ts";

type Side = "assistant" | "user";

/** Returns the next item of a script, and the last one repeatedly at its end. */
export class ScriptedSide {
  readonly inputs: JsonValue[] = [];
  readonly #side: Side;
  readonly #script: readonly JsonObject[];
  #said = 0;
  #calls = 0;

  constructor(side: Side, script: readonly JsonObject[]) {
    this.#side = side;
    this.#script = script;
  }

  next(handed: Handed): SpokenMessage {
    this.inputs.push(handedRecord(handed));
    const item = this.#script[Math.min(this.#said++, this.#script.length - 1)]!;
    const calls = item.get("calls") as [string, JsonObject][] | undefined;
    return {
      role: this.#side,
      content: (item.get("say") as string | null | undefined) ?? null,
      toolCalls:
        calls?.map(([name, given]) => {
          const id = `${this.#side === "user" ? "u" : "a"}${this.#calls++}`;
          return { id, name, arguments: given, requestor: this.#side };
        }) ?? null,
    };
  }
}

export function playConversation(data: DomainData, task: Tau2Task, record: JsonObject): Played {
  const config = record.get("config") as JsonObject;
  const isSolo = config.get("solo") === true;
  const world = newWorld(data, { isSolo });
  const sides = {
    assistant: new ScriptedSide("assistant", record.get("agent_script") as JsonObject[]),
    user: new ScriptedSide("user", (record.get("user_script") ?? []) as JsonObject[]),
  };
  const conversation = new Conversation(world, task, {
    maxSteps: config.get("max_steps") as number,
    maxErrors: config.get("max_errors") as number,
    enforcesProtocol: config.get("validate_communication") === true,
    isAgentStop: ({ content }) => config.get("agent_stops") === true && (content?.includes(stopToken) ?? false),
  });
  let raised: string | null = null;
  let { state } = conversation;
  try {
    while (state.type === "turn") state = conversation.say(sides[state.speaker].next(state.handed));
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    raised = `${error.pythonType}: ${error.message}`;
  }
  const actual = asObject({
    trajectory: conversation.messages.map(messageRecord),
    step_count: conversation.stepCount,
    num_errors: conversation.errorCount,
    agent_inputs: sides.assistant.inputs,
    // `null` without a user.
    user_inputs: isSolo ? null : sides.user.inputs,
  });
  if (raised !== null) actual.set("raises", raised);
  else {
    actual.set("termination_reason", state.type === "over" ? state.reason : null);
    actual.set("final", digestsOf(world));
  }
  return { expected: pick(record, [...actual.keys(), "raises"]), actual };
}

function handedRecord(handed: Handed): JsonValue {
  if (handed === null) return null;
  if ("role" in handed) return messageRecord(handed);
  const records = handed.map(messageRecord);
  return records.length === 1 ? records[0]! : asObject({ multi: records });
}

export function messageRecord(message: Tau2Message | ToolMessage): JsonObject {
  const { role, content } = message;
  if (role === "system") return asObject({ role, content });
  if (role === "tool") {
    return asObject({ role, id: message.id, content, requestor: message.requestor, error: message.isError });
  }
  const calls = message.toolCalls?.map((call) =>
    asObject({ id: call.id, name: call.name, arguments: call.arguments, requestor: call.requestor }),
  );
  return calls === undefined ? asObject({ role, content }) : asObject({ role, content, tool_calls: calls });
}
