import { describe, expect, it } from "vitest";
import { freeUsage } from "../core/index.ts";
import { type ExchangeSink, recordingUser, replayingUser, type UserExchange } from "./recording-user.ts";
import { taskUser } from "./task-user.ts";
import { testTask } from "./test-task.test-helper.ts";

const seed = { seed: 1 };
const words = (text: string) => ({ type: "utterance", text, usage: freeUsage });
const hangUp = { type: "hang-up", text: "", usage: freeUsage };

describe("taskUser()", () => {
  it("says what the environment begins with, and hangs up when the policy talks", async () => {
    const user = taskUser().create(testTask({ instruction: "Count." }), seed);
    expect(await user.open({ opening: "What is 2 + 2?" })).toEqual(words("What is 2 + 2?"));
    expect(await user.reply("Hello!")).toEqual(hangUp);
    await expect(user.reply("Anyone?")).rejects.toThrow('its conversation is "hung up"');
  });

  it("says the instruction where the environment begins with nothing", async () => {
    const open = (instruction: string | null, opening: string | null) =>
      taskUser().create(testTask({ instruction }), seed).open({ opening });
    expect(await open("Count.", null)).toEqual(words("Count."));
    expect(await open("Count.", "")).toEqual(words(""));
    await expect(open(null, null)).rejects.toThrow("it has no instruction");
  });

  it("reminds as often as it is told to, also after its process died", async () => {
    const source = taskUser({ reminders: 2, reminder: "Go on." });
    const user = source.create(testTask({ instruction: "Count." }), seed);
    const first = await user.open();
    expect([await user.reply("a"), await user.reply("b"), await user.reply("c")]).toEqual([
      words("Go on."),
      words("Go on."),
      hangUp,
    ]);
    const spoken = [
      { utterance: null, line: first },
      { utterance: "a", line: { type: "utterance", text: "Go on.", usage: freeUsage } as const },
    ];
    const resumed = source.resume!(testTask(), { ...seed, lines: spoken });
    expect([await resumed.reply("b"), await resumed.reply("c")]).toEqual([words("Go on."), hangUp]);
    expect(() => taskUser({ reminders: 0.5 })).toThrow(RangeError);
  });

  it("is recorded and replayed with its opening", async () => {
    const exchanges: UserExchange[] = [];
    const sink: ExchangeSink = (exchange) => void exchanges.push(exchange);
    const user = recordingUser(taskUser(), sink).create(testTask(), seed);
    const line = await user.open({ opening: "Begin." });
    expect(await replayingUser(exchanges).create(testTask(), seed).open({ opening: "other" })).toEqual(line);
  });
});
