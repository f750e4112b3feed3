import { describe, expect, it } from "vitest";
import { type ChatMessage, type ChatModel, textReply } from "../chat-models/index.ts";
import { reactUser, reflectionUser, verifyUser, type ModelUserOptions } from "./model-user.ts";
import type { UserPrompts } from "./prompts.ts";
import { testTask } from "./test-task.test-helper.ts";

const prompts: UserPrompts = {
  greeting: "Hi!",
  system: (instruction) => `play ${instruction}`,
  reactSystem: (instruction) => `think and play ${instruction}`,
  check: ({ instruction, transcript, response }) => `check <${instruction}> <${transcript}> <${response}>`,
  reflect: ({ instruction, transcript, response }) => `reflect <${instruction}> <${transcript}> <${response}>`,
};

/** A model with given replies, and the messages that it was shown for each. */
function replying(...replies: readonly string[]) {
  const shown: (readonly ChatMessage[])[] = [];
  const chat: ChatModel = {
    name: "scripted",
    complete: (messages) => {
      const text = replies[shown.length];
      if (text === undefined) return Promise.reject(new Error("one model call more than replies"));
      shown.push([...messages]);
      return Promise.resolve(textReply(text, { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: 1 }));
    },
  };
  return { chat, shown, last: () => shown.at(-1)?.map(({ content }) => content) };
}

const retry = { maxAttempts: 9, maxElapsedMs: 1000, baseDelayMs: 0, maxDelayMs: 0 };
const make = (source: typeof reactUser, chat: ChatModel, options: ModelUserOptions = {}) =>
  source({ chat, prompts, retry, ...options }).create(testTask(), { seed: 1 });

describe("reactUser()", () => {
  it("sends the line alone and remembers the whole reply", async () => {
    const model = replying("Thought:\nI should greet.\n\nUser Response:\nhello\n", "**User Response:** my id is 7");
    const user = make(reactUser, model.chat);
    expect((await user.open()).text).toBe("hello");
    expect((await user.reply("Who are you?")).text).toBe("my id is 7");
    expect(model.last()).toEqual([
      "think and play Cancel my order.",
      "Hi!",
      "Thought:\nI should greet.\n\nUser Response:\nhello",
      "Who are you?",
    ]);
  });

  it("hangs up for the line's stop marker, not for a thought's", async () => {
    const user = make(
      reactUser,
      replying("Thought: too early for ###STOP###\nUser Response: wait", "Thought: done\nUser Response: ###STOP###")
        .chat,
    );
    expect(await user.open()).toMatchObject({ type: "utterance", text: "wait" });
    expect(await user.reply("Done.")).toMatchObject({ type: "hang-up", text: "###STOP###" });
  });

  it.each(["Thought: only", "no heading", "User Response: a\nUser Response: b", "User Response:\n"])(
    "asks again for %j, and fails by name after two more",
    async (bad) => {
      const line = await make(reactUser, replying(bad, "User Response: good").chat).open();
      expect(line).toMatchObject({ text: "good", usage: { modelCalls: 2, cost: 2 } });
      await expect(make(reactUser, replying(bad, bad, bad).chat).open()).rejects.toMatchObject({
        failure: { boundary: "user", code: "malformed-reply" },
      });
    },
  );
});

describe("verifyUser()", () => {
  it("makes a refused line again, shows the checker who is who, and counts every call", async () => {
    const model = replying(
      "hello",
      "true",
      "bad",
      "That is not true to the part: false",
      "better",
      "True.",
      "bye",
      "true",
    );
    const user = make(verifyUser, model.chat);
    await user.open();
    const line = await user.reply("Who are you?");
    expect(line).toMatchObject({ text: "better", usage: { modelCalls: 4, inputTokens: 4, outputTokens: 4, cost: 4 } });
    expect(model.last()).toEqual([
      "check <Cancel my order.> <Agent: Hi!\nCustomer: hello\nAgent: Who are you?> <better>",
    ]);
    await user.reply("Done.");
    expect(model.shown.at(-2)?.map(({ content }) => content)).toEqual([
      "play Cancel my order.",
      "Hi!",
      "hello",
      "Who are you?",
      "better",
      "Done.",
    ]);
  });

  it("sends and remembers the third line when all are refused, also by a checker that says neither", async () => {
    const model = replying("a", "false", "b", "perhaps", "c", "false", "d", "true");
    const user = make(verifyUser, model.chat);
    expect((await user.open()).text).toBe("c");
    await user.reply("and?");
    expect(model.shown[6]?.map(({ content }) => content).slice(1)).toEqual(["Hi!", "c", "and?"]);
  });
});

describe("reflectionUser()", () => {
  it("sends what the reflection found better, and remembers only that", async () => {
    const model = replying("bad", "false", "Reflection: too rude.\nResponse: better", "thanks", "true");
    const user = make(reflectionUser, model.chat);
    expect(await user.open()).toMatchObject({ text: "better", usage: { modelCalls: 3 } });
    expect(model.last()).toEqual(["reflect <Cancel my order.> <Agent: Hi!> <bad>"]);
    expect((await user.reply("and?")).text).toBe("thanks");
    expect(model.shown[3]?.map(({ content }) => content).slice(1)).toEqual(["Hi!", "better", "and?"]);
  });

  it("asks again for a reflection without a line", async () => {
    const user = make(reflectionUser, replying("bad", "false", "Reflection: hm", "Response: good").chat);
    expect(await user.open()).toMatchObject({ text: "good", usage: { modelCalls: 4 } });
  });
});

describe('the strategies with compat "upstream"', () => {
  it("bill their rehearsals to the first line", async () => {
    const model = replying("Thought: x", "Thought: y", "Thought: z");
    const line = await make(reactUser, model.chat, { compat: "upstream" }).open();
    expect(line).toMatchObject({ text: "z", usage: { modelCalls: 3, cost: 3 } });
    expect(model.shown[0]?.[0]?.content).toBe("think and play null");
  });
});
