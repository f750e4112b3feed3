import { describe, expect, it } from "vitest";
import { freeUsage } from "../core/index.ts";
import { scriptedUser, scriptedUsers } from "./scripted-user.ts";
import { testTask } from "./test-task.test-helper.ts";

describe("scriptedUser()", () => {
  it("says its lines in order, hears the agent, and hangs up at the stop marker with its last words", async () => {
    const user = scriptedUser(["hello", { type: "utterance", text: "yes", usage: freeUsage }, "bye ###STOP###"]);
    expect(await user.open()).toEqual({ type: "utterance", text: "hello", usage: freeUsage });
    expect((await user.reply("sure?")).text).toBe("yes");
    expect(await user.reply("done")).toEqual({ type: "hang-up", text: "bye ###STOP###", usage: freeUsage });
    expect(user.utterances).toEqual(["sure?", "done"]);
    expect(() => user.verify()).not.toThrow();
  });

  it("fails on a call it has no line for, at once and in verify()", async () => {
    const user = scriptedUser(["hello"]);
    await user.open();
    await expect(user.reply("and?")).rejects.toThrow('reply 1 ("and?")');
    expect(() => user.verify()).toThrow("all 1 lines have been used");
  });

  it("fails in verify() when lines are left", async () => {
    const user = scriptedUser(["hello", "unused"]);
    await user.open();
    expect(() => user.verify()).toThrow('1 of 2 lines were never requested; the next is "unused"');
  });

  it("plays faults at boundary user", async () => {
    const user = scriptedUser([{ type: "fault", code: "timeout", message: "Too slow." }]);
    await expect(user.open()).rejects.toMatchObject({
      failure: { boundary: "user", code: "timeout", message: "Too slow.", retryable: true },
    });
    user.verify();
  });

  it("refuses calls out of order", async () => {
    await expect(scriptedUser(["a"]).reply("first")).rejects.toThrow('"new", expected "open"');
    const twice = scriptedUser(["a", "b"]);
    await twice.open();
    await expect(twice.open()).rejects.toThrow('"open", expected "new"');
    const overlapping = scriptedUser(["a", "b", "c"]);
    await overlapping.open();
    const first = overlapping.reply("one");
    await expect(overlapping.reply("two")).rejects.toThrow('"answering", expected "open"');
    expect((await first).text).toBe("b");
    const gone = scriptedUser(["###STOP###", "more"]);
    await gone.open();
    await expect(gone.reply("still there?")).rejects.toThrow('"hung up"');
  });

  it("does not spend a line on a cancelled call", async () => {
    const user = scriptedUser(["a"]);
    await expect(user.open({ signal: AbortSignal.abort(new Error("over")) })).rejects.toMatchObject({
      failure: { boundary: "user", code: "cancelled", cause: "over" },
    });
    expect(() => user.verify()).toThrow("1 of 1 lines");
  });
});

describe("scriptedUsers()", () => {
  it("gives each episode a user of its own and verifies them all", async () => {
    const source = scriptedUsers(["a"]);
    expect(() => source.verify()).toThrow("no episode has created one");
    const task = testTask();
    const [one, two] = [source.create(task, { seed: 1 }), source.create(task, { seed: 2 })];
    await one.open();
    expect(() => source.verify()).toThrow("never requested");
    await two.open();
    source.verify();
  });
});
