import { describe, expect, it } from "vitest";
import { AttributedError, ConfigurationError, type UserSimulator, type UserSource } from "../core/index.ts";
import { recordingUser, replayingUser, parseUserExchanges, type UserExchange } from "./recording-user.ts";
import { scriptedUsers } from "./scripted-user.ts";
import { testTask } from "./test-task.test-helper.ts";

const usage = { modelCalls: 2, inputTokens: 30, outputTokens: 4, cost: null };

/** A user that says its seed and take, so that conversations differ. */
function countingSource(): UserSource {
  let made = 0;
  return {
    name: "counting",
    create: (task, { seed }) => {
      const name = `${task.id}/${seed}/${made++}`;
      return {
        open: () => Promise.resolve({ type: "utterance", text: `hello from ${name}`, usage }),
        reply: (words) => Promise.resolve({ type: "utterance", text: `${words}? from ${name}`, usage }),
      };
    },
  };
}

async function talk(user: UserSimulator, ...said: readonly string[]): Promise<unknown[]> {
  const lines: unknown[] = [];
  const keep = async (call: Promise<unknown>): Promise<void> => {
    lines.push(await call.catch((error: unknown) => (error instanceof AttributedError ? error.failure : error)));
  };
  await keep(user.open());
  for (const words of said) await keep(user.reply(words));
  return lines;
}

describe("recordingUser() and replayingUser()", () => {
  it("give the same lines, usage and faults again, through JSON lines in any order", async () => {
    const records: UserExchange[] = [];
    const run = async (source: UserSource): Promise<unknown[]> => {
      const conversations = [
        [testTask({ id: "a" }), 1],
        [testTask({ id: "a" }), 2],
        [testTask({ id: "b" }), 1],
        [testTask({ id: "a" }), 1],
      ] as const;
      const users = conversations.map(([task, seed]) => source.create(task, { seed }));
      return Promise.all(users.map((user, index) => talk(user, "one", `two ${index}`)));
    };
    const original = await run(recordingUser(countingSource(), (exchange) => void records.push(exchange)));
    const text = records
      .toReversed()
      .map((exchange) => `${JSON.stringify(exchange)}\n`)
      .join("\n");
    expect(await run(replayingUser(parseUserExchanges(text)))).toEqual(original);
    expect(records.length).toBe(12);
  });

  it("record faults of the user and play them back", async () => {
    const records: UserExchange[] = [];
    const source = scriptedUsers(["hello", { type: "fault", code: "timeout", message: "Too slow." }]);
    const recording = recordingUser(source, (exchange) => void records.push(exchange));
    const original = await talk(recording.create(testTask(), { seed: 1 }), "Who are you?");
    expect(original[1]).toMatchObject({ boundary: "user", code: "timeout" });
    expect(await talk(replayingUser(records).create(testTask(), { seed: 1 }), "Who are you?")).toEqual(original);
    source.verify();
  });

  it("record what a source throws of its own, attributed", async () => {
    const records: UserExchange[] = [];
    const fail = () => Promise.reject(new Error("no idea"));
    const broken: UserSimulator = { open: fail, reply: fail };
    const source: UserSource = { name: "broken", create: () => broken };
    await recordingUser(source, (exchange) => void records.push(exchange))
      .create(testTask(), { seed: 1 })
      .open()
      .catch(() => {});
    const played = await talk(replayingUser(records).create(testTask(), { seed: 1 }));
    expect(played[0]).toMatchObject({ boundary: "user", code: "unexpected", message: "no idea" });
  });

  it("do not record a cancelled call", async () => {
    const records: UserExchange[] = [];
    const user = recordingUser(scriptedUsers(["hello"]), (exchange) => void records.push(exchange)).create(testTask(), {
      seed: 1,
    });
    await expect(user.open({ signal: AbortSignal.abort() })).rejects.toMatchObject({ failure: { code: "cancelled" } });
    expect(records).toEqual([]);
  });

  it("store an exchange before its line counts", async () => {
    const user = recordingUser(scriptedUsers(["hello"]), () => Promise.reject(new Error("disk full"))).create(
      testTask(),
      {
        seed: 1,
      },
    );
    await expect(user.open()).rejects.toThrow("disk full");
  });
});

describe("replayingUser()", () => {
  const exchange: UserExchange = {
    taskId: testTask().id,
    seed: 1,
    take: 0,
    index: 0,
    utterance: null,
    answer: { type: "line", line: { type: "utterance", text: "hello", usage } },
  };

  it("fails by name when the agent says something else, or goes on longer", async () => {
    const source = replayingUser([exchange, { ...exchange, index: 1, utterance: "yes" }, { ...exchange, take: 1 }]);
    const changed = await talk(source.create(testTask(), { seed: 1 }), "no");
    expect(changed[1]).toMatchObject({
      code: "replay-mismatch",
      retryable: false,
      message: expect.stringContaining('the agent said "no", but in the recording the agent said "yes"') as unknown,
    });
    const longer = await talk(source.create(testTask(), { seed: 1 }), "and?");
    expect(longer[1]).toMatchObject({ message: expect.stringContaining("the conversation was over") as unknown });
  });

  it("refuses a conversation that was not recorded", () => {
    expect(() => replayingUser([exchange]).create(testTask(), { seed: 2 })).toThrow(ConfigurationError);
  });
});

describe("parseUserExchanges()", () => {
  it.each(['{"taskId": "a"', "{}", '{"taskId":"a","seed":1,"take":0,"index":0,"words":null,"answer":{"type":"line"}}'])(
    "names the line that is not an exchange: %s",
    (line) => {
      expect(() => parseUserExchanges(`\n${line}`)).toThrow("line 2 is not an exchange");
    },
  );
});
