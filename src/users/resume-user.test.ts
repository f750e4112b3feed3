import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import type { ChatModel, ChatText } from "../chat-models/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import type { PastLine, UserSimulator, UserSource } from "../core/index.ts";
import {
  agendaUser,
  humanUser,
  llmUser,
  type ModelUserOptions,
  reactUser,
  recordingUser,
  reflectionUser,
  replayingUser,
  scriptedUser,
  scriptedUsers,
  type UserExchange,
  verifyUser,
} from "./index.ts";
import { testTask } from "./test-task.test-helper.ts";

const heard = ["How can I help?", "What is your order number?", "Shall I go ahead?"];

async function talk(user: UserSimulator, words: readonly (string | null)[]): Promise<PastLine[]> {
  const spoken: PastLine[] = [];
  for (const one of words) spoken.push({ utterance: one, line: await (one === null ? user.open() : user.reply(one)) });
  return spoken;
}

/**
 * A model that says "line 0", "line 1", ... in the form that a strategy reads, and passes every
 * review.
 */
function countingModel(first: number, wrap: (line: string) => string = (line) => line) {
  const shown: (readonly ChatText[])[] = [];
  let next = first;
  const chat: ChatModel = {
    name: "counting",
    complete: (messages) => {
      const isReview = messages.length === 1;
      if (!isReview) shown.push(messages.map((message) => ({ ...message }) as ChatText));
      const text = isReview ? "true" : wrap(`line ${next++}`);
      const usage = { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: null };
      return Promise.resolve({ text, reasoning: null, toolCalls: [], isTruncated: false, usage });
    },
  };
  return { chat, shown };
}

describe("UserSource.resume", () => {
  const task = bookshopSource().taskset("train").task(3);
  const deterministic: readonly (readonly [string, () => UserSource])[] = [
    ["agenda", agendaUser],
    ["scripted", () => scriptedUsers(["One.", "Two.", "Three.", "###STOP###"])],
  ];
  it.each(deterministic)("%s goes on as if nothing had happened, wherever it is taken up", async (_, make) => {
    const words = [null, ...heard];
    const whole = await talk(make().create(task, { seed: 4 }), words);
    for (let said = 1; said < whole.length; said++) {
      const user = make().resume!(task, { seed: 4, lines: whole.slice(0, said) });
      expect(await talk(user, words.slice(said))).toEqual(whole.slice(said));
    }
  });

  it("fails with replay-mismatch when the user would have said something else", async () => {
    const [first] = await talk(agendaUser().create(task, { seed: 4 }), [null]);
    const user = agendaUser().resume!(task, { seed: 5, lines: [first!] });
    await expect(user.reply("Hello?")).rejects.toThrow("Cannot resume the conversation of the user: line 0");
  });

  const models: readonly (readonly [string, (options: ModelUserOptions) => UserSource, (line: string) => string])[] = [
    ["llm", llmUser, (line) => line],
    ["verify", verifyUser, (line) => line],
    ["reflection", reflectionUser, (line) => line],
    ["react", reactUser, (line) => `User Response:\n${line}`],
  ];
  it.each(models)(
    "%s shows its model the conversation that was, and asks for the next line alone",
    async (_, make, wrap) => {
      const before = countingModel(0, wrap);
      const words = [null, ...heard];
      const whole = await talk(make({ chat: before.chat }).create(testTask(), { seed: 0 }), words);
      const after = countingModel(2, wrap);
      const user = make({ chat: after.chat }).resume!(testTask(), { seed: 0, lines: whole.slice(0, 2) });
      expect(await talk(user, words.slice(2))).toEqual(whole.slice(2));
      expect(after.shown).toEqual(before.shown.slice(2));
      await expect(user.open()).rejects.toThrow("Cannot call open()");
    },
  );

  it("human is shown what was said before the next question, once", async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    input.write("go on\nand on\n");
    const spoken: PastLine[] = [
      {
        utterance: null,
        line: { type: "utterance", text: "hello", usage: { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 } },
      },
    ];
    const user = humanUser({ input, output }).resume!(testTask(), { seed: 0, lines: spoken });
    expect((await user.reply("What now?")).text).toBe("go on");
    expect((await user.reply("And then?")).text).toBe("and on");
    const shown = String(output.read());
    expect(shown.match(/> hello\n/g)).toHaveLength(1);
    expect(shown.indexOf("> hello\n")).toBeLessThan(shown.indexOf("What now?"));
  });

  it("a recording goes on where it stopped, and replays as one conversation", async () => {
    const exchanges: UserExchange[] = [];
    const source = (): UserSource =>
      recordingUser(scriptedUsers(["One.", "Two.", "Three."]), (one) => void exchanges.push(one));
    const words = [null, "a", "b"];
    // The last line was recorded, but did not count before the process died.
    const spoken = (await talk(source().create(task, { seed: 1 }), words)).slice(0, 2);
    await talk(source().resume!(task, { seed: 1, lines: spoken }), words.slice(2));
    expect(exchanges.map(({ index }) => index)).toEqual([0, 1, 2, 2]);
    const again = await talk(replayingUser(exchanges).create(task, { seed: 1 }), words);
    expect(again.map(({ line }) => line.text)).toEqual(["One.", "Two.", "Three."]);
    const resumed = replayingUser(exchanges).resume!(task, { seed: 1, lines: spoken });
    expect((await resumed.reply("b")).text).toBe("Three.");
  });

  it("a recording of users that cannot go on cannot go on either", () => {
    const source = recordingUser({ name: "x", create: () => scriptedUser([]) }, () => undefined);
    expect("resume" in source).toBe(false);
  });
});
