// Replays recorded conversations of τ-bench's simulated users: the messages of each model call, its
// reply, and the message to the agent. The records have marks in place of prompt texts, so our
// prompts are replaced by the same marks.

import { type ChatMessage, textReply } from "#src/chat-models/index.ts";
import { AttributedError, type Task, type UserSource } from "#src/core/index.ts";
import { pythonRepr } from "#src/python-semantics/index.ts";
import {
  llmUser,
  reactUser,
  reflectionUser,
  verifyUser,
  type ModelUserOptions,
  type UserPrompts,
} from "#src/users/index.ts";

type RecordedCall = { readonly messages: readonly ChatMessage[]; readonly reply: string };

/** One record of `user-flows.json`. */
export type UserFlow = {
  readonly strategy: string;
  readonly events: readonly {
    readonly do: "construct" | "reset" | "step";
    readonly instruction?: string;
    readonly content?: string;
    readonly returned?: string | null;
    readonly raised?: string;
    readonly message?: string;
    readonly model_calls: readonly RecordedCall[];
  }[];
};

const users: Readonly<Record<string, (options: ModelUserOptions) => UserSource>> = {
  llm: llmUser,
  react: reactUser,
  verify: verifyUser,
  reflection: reflectionUser,
};

/**
 * Difference between the conversation and the record; `null` if they are equal, `undefined` for an
 * unknown strategy.
 */
export async function playUserFlow(flow: UserFlow): Promise<string | null | undefined> {
  const makeUser = Object.hasOwn(users, flow.strategy) ? users[flow.strategy] : undefined;
  if (makeUser === undefined) return undefined;
  const recorded = flow.events.flatMap((event) => event.model_calls);
  const calls: RecordedCall[] = [];
  const source = makeUser({
    compat: "upstream",
    prompts: marks(flow, recorded),
    retry: { maxAttempts: 1, maxElapsedMs: 0, baseDelayMs: 0, maxDelayMs: 0 },
    chat: {
      name: "recorded",
      complete: (messages) => {
        const reply = recorded[calls.length]?.reply ?? "(one call more than recorded)";
        calls.push({ messages: [...messages], reply });
        return Promise.resolve(textReply(reply, { modelCalls: 1, inputTokens: 0, outputTokens: 0, cost: 0 }));
      },
    },
  });
  const reset = flow.events.find((event) => event.do === "reset");
  const user = source.create(taskOf(reset?.instruction ?? ""), { seed: 0 });
  // Upstream calls the model when the user is constructed; here that is part of the first message.
  for (const event of flow.events.slice(1)) {
    const outcome = await outcomeOf(() => (event.do === "step" ? user.reply(event.content ?? "") : user.open()));
    const wanted = event.raised === undefined ? `said ${event.returned}` : `raised ${event.raised}: ${event.message}`;
    if (outcome !== wanted) return `${event.do}: ${outcome}; recorded: ${wanted}`;
  }
  const got = calls.map((call) => JSON.stringify(call));
  const wanted = recorded.map((call) => JSON.stringify({ messages: call.messages, reply: call.reply }));
  const at = got.findIndex((call, index) => call !== wanted[index]);
  if (at >= 0) return `model call ${at}: ${got[at]}; recorded: ${wanted[at] ?? "none"}`;
  return got.length === wanted.length ? null : `${got.length} model calls; recorded: ${wanted.length}`;
}

async function outcomeOf(call: () => Promise<{ readonly text: string }>): Promise<string> {
  try {
    return `said ${(await call()).text}`;
  } catch (error) {
    if (error instanceof AttributedError) return `raised ${error.failure.cause}`;
    throw error;
  }
}

/** Prompts that produce the marks of the records. */
function marks(flow: UserFlow, recorded: readonly RecordedCall[]): UserPrompts {
  const mark = (name: string, instruction: string | null): string =>
    instruction === null ? `<${name} without instruction>` : `<${name} for ${pythonRepr(instruction)}>`;
  const review = (name: string, transcript: string, response: string): string => {
    // A prompt is one line of marks, so the transcript's first line is the system prompt.
    const hidden = transcript.replace(/^System: .*/, "System: <the whole system prompt>");
    return `<${name} transcript=${pythonRepr(hidden)} response=${pythonRepr(markMessage(response))}>`;
  };
  const markMessage = (response: string): string => {
    const call = recorded.find(({ reply }) => response.startsWith(`Message(content=${pythonRepr(reply)}, role=`));
    return call === undefined ? response : `<MESSAGE ${call.reply}>`;
  };
  return {
    greeting: flow.events[0]?.model_calls[0]?.messages[1]?.content ?? "",
    system: (instruction) => mark("SYSTEM", instruction),
    reactSystem: (instruction) => mark("REACT SYSTEM", instruction),
    check: ({ transcript, response }) => review("VERIFY", transcript, response),
    reflect: ({ transcript, response }) => review("REFLECT", transcript, response),
  };
}

function taskOf(instruction: string): Task {
  return {
    id: "tau-bench/user-flow:test:0",
    environment: "tau-bench/user-flow",
    split: "test",
    index: 0,
    contentHash: "",
    instruction,
    agenda: null,
  };
}
