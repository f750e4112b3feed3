import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { firstStop, type Renderer, type SampleOptions, type SampleRequest, type SampleResult } from "../core/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { eventsOf, openWorld, post, recordViolations, tokenizer, type World } from "./gateway-world.test-helper.ts";
import { say, speakers } from "./speakers.test-helper.ts";
import { findStop, stopStringsOf, sureEnd } from "./stop-strings.ts";

const anyText = fc.string({ unit: fc.constantFrom("a", "b", "é", "😀", "\n"), maxLength: 12 });
const someStrings = fc.array(
  fc.string({ unit: fc.constantFrom("a", "b", "é", "😀", "\n"), minLength: 1, maxLength: 4 }),
  {
    minLength: 1,
    maxLength: 3,
  },
);

/** End of the first stop string, found character by character. */
function firstEnd(whole: string, stop: readonly string[]): number {
  for (let end = 1; end <= whole.length; end++) {
    if (stop.some((one) => whole.slice(0, end).endsWith(one))) return end;
  }
  return -1;
}

describe("a stop string", () => {
  test("is found where it is complete first, and no part of it is sure before", () => {
    fc.assert(
      fc.property(anyText, someStrings, (whole, stop) => {
        const end = firstEnd(whole, stop);
        const found = findStop(whole, stop);
        expect(found === null ? -1 : found.start + found.string.length).toBe(end);
        const shown = found?.start ?? whole.length;
        for (let length = 0; length <= whole.length; length++) {
          // Text that was sent during sampling is a prefix of the final text.
          expect(sureEnd(whole.slice(0, length), stop)).toBeLessThanOrEqual(shown);
        }
        if (end !== -1) expect(findStop(whole.slice(0, shown), stop)).toBeNull();
      }),
    );
  });

  test("is watched for wherever tokens end, with a renderer that decodes as it goes and with one that does not", () => {
    const bytes = new TextDecoder();
    // A renderer with one token per byte: a character may take four tokens.
    const byBytes = { decode: (ids: ArrayLike<number>) => bytes.decode(Uint8Array.from(ids)) };
    const renderer = createQwenRenderer({ tokenizer: createReadableTokenizer(), family: "qwen2.5-instruct" });
    fc.assert(
      fc.property(anyText, someStrings, (whole, stop) => {
        const end = firstEnd(whole, stop);
        const check = (reader: Pick<Renderer, "decode" | "startDecoding">, ids: readonly number[]): void => {
          const completes = stopStringsOf(stop, reader)!.watch();
          const matched = ids.map((id) => completes(id));
          const at = matched.findIndex((one) => one !== null);
          if (end === -1) return expect(at).toBe(-1);
          // The match is reported at the token with its last character, and not before.
          expect(findStop(reader.decode(ids.slice(0, at)), stop)).toBeNull();
          expect(findStop(reader.decode(ids.slice(0, at + 1)), stop)?.string).toBe(matched[at]);
        };
        check(byBytes, [...new TextEncoder().encode(whole)]);
        check(renderer, [...tokenizer.encode(whole)]);
      }),
    );
  });

  test("that is empty is none", () => {
    const renderer = { decode: () => "" };
    expect(stopStringsOf([], renderer)).toBeNull();
    expect(stopStringsOf(["", ""], renderer)).toBeNull();
    expect(stopStringsOf(["", "a", "a"], renderer)?.strings).toEqual(["a"]);
  });
});

const said = "Thought: look.\nAction: go\nObservation: it is sunny. Then more.";
const shown = "Thought: look.\nAction: go";
const stop = { chat: { stop: ["\nObservation:"] }, messages: { stop_sequences: ["\nObservation:"] } };

/**
 * `knowsStop`: true if the engine ends at the string; false if it ignores stop strings and samples
 * on, as a server without a tokenizer may.
 */
async function openStopWorld(knowsStop: boolean): Promise<World> {
  const world = await openWorld((prompt) => (prompt.includes("again") ? "done" : said));
  const sample = world.engine.sample.bind(world.engine);
  world.engine.sample = (request: SampleRequest, options?: SampleOptions): Promise<SampleResult> => {
    expect(request.sampling.extra).not.toHaveProperty("stop");
    return sample(knowsStop ? request : { ...request, stopStrings: null }, options);
  };
  return world;
}

describe.each([true, false])("a request with stop strings, whose engine ends there: %s", (knowsStop) => {
  test.each([
    { dialect: "chat", stream: false },
    { dialect: "chat", stream: true },
    { dialect: "messages", stream: false },
    { dialect: "messages", stream: true },
  ] as const)("is answered without them over $dialect, streamed: $stream", async ({ dialect, stream }) => {
    const world = await openStopWorld(knowsStop);
    const heard = await say(world, dialect, [{ role: "user", text: "a" }], { stream, fields: stop[dialect] });
    expect(heard).toMatchObject({ status: 200, text: shown, calls: [] });
    expect([heard.ending, heard.stopSequence]).toEqual(
      dialect === "chat" ? ["stop", null] : ["stop_sequence", "\nObservation:"],
    );
    expect(heard.raw).not.toContain("sunny");
    // The record is exactly as sampled, and the echo of the answer continues it.
    const whole = knowsStop ? said.slice(0, said.indexOf(":", said.indexOf("Obs")) + 1) : said;
    const again = [{ role: "user", text: "a" }, { role: "assistant", text: heard.text, calls: [] }, { role: "user", text: "again" }] as const; // prettier-ignore
    expect((await say(world, dialect, again, { stream, fields: stop[dialect] })).text).toBe("done");
    const { counters } = world.gateway.sessions[0]!;
    expect(counters).toMatchObject({ extended: 1, branched: {}, reencoded: 0 });
    await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end("s1");
    const [turn] = episode.trajectory.turns;
    expect(tokenizer.decode(turn!.sampledTokens).replace("<|im_end|>", "")).toBe(whole);
    expect(turn!.finish).toMatchObject({ reason: "stop", matched: "\nObservation:" });
    expect(episode.messages[1]).toMatchObject({ role: "assistant", content: whole });
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    await world.close();
  });
});

test("a stop string never leaks from a stream, whatever the tokens", async () => {
  let next = "";
  const world = await openWorld(() => next);
  const sample = world.engine.sample.bind(world.engine);
  world.engine.sample = async (request: SampleRequest, options?: SampleOptions) => {
    const result = await sample(request);
    for (const id of result.sampledTokens) {
      options?.onTokens?.(Uint32Array.of(id));
      // Longer than the reader's interval between two parses.
      await new Promise((resolve) => setTimeout(resolve, 26));
    }
    return result;
  };
  for (const [whole, stopped, expected] of [
    ["one two END three", ["END"], "one two "],
    ["one two EN D three", ["END"], "one two EN D three"],
    ["one, two, three four", ["two, three", ", t"], "one"],
    ["1\n\n2\n\n\n3", ["\n\n\n"], "1\n\n2"],
  ] as const) {
    next = whole;
    const body = { model: "m", stream: true, stop: stopped, messages: [{ role: "user", content: whole }] };
    const answer = await post(world.gateway, speakers.chat.path, body);
    const events = eventsOf(answer.text) as Parameters<typeof speakers.chat.streamed>[0];
    expect(speakers.chat.streamed(events).text.trimEnd()).toBe(expected.trimEnd());
  }
  await world.close();
});

test("completions of ids end with the string in the ids, and without it in the text", async () => {
  const world = await openStopWorld(true);
  const prompt = [...tokenizer.encode("hello")];
  const body = { model: "m", prompt, ...stop.chat };
  const { json } = await post(world.gateway, "/v1/completions", body);
  const [choice] = json["choices"] as readonly { text: string; token_ids: readonly number[]; finish_reason: string }[];
  expect([choice!.text, choice!.finish_reason]).toEqual([shown, "stop"]);
  expect(tokenizer.decode(choice!.token_ids)).toContain("Observation:");
  await world.close();
});

test("an answer that its client never had is given again as it was, after a restart, too", async () => {
  const world = await openStopWorld(false);
  const body = { ...speakers.messages.body([{ role: "user", text: "a" }], []), ...stop.messages };
  const lost = await post(world.gateway, "/v1/messages", body, { delivers: false });
  const after = await world.restart();
  const again = await post(after.gateway, "/v1/messages", body);
  expect(again.json).toEqual(lost.json);
  expect(again.json).toMatchObject({ content: [{ text: shown }], stop_reason: "stop_sequence" });
  expect(after.sampled).toHaveLength(0);
  await after.close();
});

test("a string that begins before an abort of the engine, and ends behind it, ends the answer", async () => {
  const world = await openWorld(() => "unused", { episode: { engineAbort: { onAbort: "continue" } } });
  const [first, second] = ["one EN", "D two"].map((one) => tokenizer.encode(one));
  const answers = [first!, second!];
  world.engine.sample = async ({ stopStrings, prompt }: SampleRequest): Promise<SampleResult> => {
    const ids = answers.shift()!;
    const isFirst = ids === first;
    const stopped = firstStop(ids, stopStrings!);
    expect(stopped?.matched ?? null).toBe(isFirst ? null : "END");
    const sampledTokens = ids.subarray(0, stopped?.count);
    return {
      sampledTokens,
      logprobs: null,
      finish: { reason: isFirst ? "abort" : "stop", matched: stopped?.matched ?? null, raw: null },
      weightSpans: [{ tokenCount: sampledTokens.length, dispatch: null, reply: null }],
      usage: { promptTokens: prompt.length, completionTokens: sampledTokens.length, cachedTokens: null },
    };
  };
  const heard = await say(world, "chat", [{ role: "user", text: "a" }], { fields: { stop: "END" } });
  expect([heard.text.trim(), heard.ending]).toEqual(["one", "stop"]);
  await world.close();
});

test("a session's own stop strings are cut, too, and reach no engine as they are", async () => {
  const world = await openWorld(() => said, { sampling: { extra: { stop: "Action:", min_p: 0 } } });
  const heard = await say(world, "chat", [{ role: "user", text: "a" }], { fields: stop.chat });
  expect(heard.text).toBe("Thought: look.\n");
  await world.close();
});
