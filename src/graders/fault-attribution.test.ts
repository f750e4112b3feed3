import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Failure } from "../core/index.ts";
import { toolFromDefinition } from "../core/index.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { attributeFault, type FailedEpisode, faults } from "./fault-attribution.ts";
import { type ConversationStep, type TaskFacts } from "./conversation.ts";
import { judgeFault } from "./model-judge.ts";

const json = (value: object): JsonObject => fromPlain(value) as JsonObject;
const tool = (name: string, properties: object = {}) =>
  toolFromDefinition(json({ type: "function", function: { name, parameters: { type: "object", properties } } }));

const user = (text: string): ConversationStep => ({ type: "user", text, hangsUp: false });
const bye = (text: string): ConversationStep => ({ type: "user", text, hangsUp: true });
const agent = (text: string): ConversationStep => ({ type: "agent", text });
const call = (name: string, values: object, result = "done"): ConversationStep => ({
  type: "call",
  name,
  arguments: json(values),
  result,
  isError: false,
});

const cabin = { enum: ["basic", "panorama"] };
const facts: TaskFacts = {
  instruction: "Your user id is ada_king_4711. You want a basic seat on the night train. You pay with your voucher.",
  tools: [tool("book_seat", { cabin }), tool("cancel_seat"), tool("get_trains"), tool("send_gift")],
  userTools: [tool("check_ticket")],
  expectedCalls: [{ name: "book_seat", arguments: json({ user: "ada_king_4711", cabin: "basic", pay: "voucher" }) }],
  isReachable: true,
  knownFacts: [{ name: "user id", value: "ada_king_4711" }],
};
const attribute = (conversation: readonly ConversationStep[], changes: Partial<FailedEpisode> = {}) =>
  attributeFault({ conversation, outcome: "completed", failure: null, facts, ...changes });
const fair = [
  user("A seat, please."),
  agent("What is your user id?"),
  user("ada_king_4711"),
  call("book_seat", { user: "ada_king_4711", cabin: "basic", pay: "card" }),
  agent("Booked. Anything else?"),
  bye("No, thank you."),
];

describe("attributeFault()", () => {
  it("leaves a failure to the agent when nothing else explains it, limits included", () => {
    expect(attribute(fair)).toMatchObject({ fault: "agent", rule: "nothing-else-explains-it", by: "rules" });
    expect(attribute(fair, { outcome: "truncated" })).toMatchObject({ fault: "agent", rule: "ran-into-limit" });
  });

  it.each<[string, readonly ConversationStep[]]>([
    ["empty-line", [user("Hello."), agent("What can I do?"), user("  "), ...fair]],
    ["placeholder", [user("My code is [insert your code]."), ...fair]],
    ["wrong-role", [user("Agent: How can I help you today?"), ...fair]],
    [
      "withheld-fact",
      [user("A seat."), agent("Please tell me your user ID."), user("I lost it."), agent("Sorry."), bye("Bye.")],
    ],
    ["invented-identifier", [user("I am ada_king_4711, it is about booking QX81LM."), agent("I see."), bye("Bye.")]],
    [
      "other-choice",
      [...fair.slice(0, 3), user("Make it panorama."), call("book_seat", { cabin: "panorama" }), bye("Bye.")],
    ],
    [
      "other-change",
      [...fair.slice(0, 3), user("Please cancel my seat."), call("cancel_seat", { seat: 4 }), bye("Bye.")],
    ],
    ["hung-up-on-own-request", [...fair.slice(0, 3), agent("Shall I book it?"), bye("Yes, please go ahead. Bye.")]],
    [
      "ignored-request",
      [
        ...fair.slice(0, 3),
        agent("Please run check_ticket."),
        user("It is fine."),
        agent("Use check_ticket, please."),
        user("No."),
      ],
    ],
    ["hung-up-on-open-question", [...fair.slice(0, 3), agent("Which train?"), bye("Never mind.")]],
  ])("finds the user's mistake: %s", (rule, conversation) => {
    expect(attribute(conversation)).toMatchObject({ fault: "user", rule });
  });

  it.each<[string, readonly ConversationStep[]]>([
    [
      "told only when asked twice",
      [user("Hi."), agent("Your user id?"), user("Wait."), agent("Your user id, please."), ...fair],
    ],
    [
      "used by the agent without being said",
      [user("Hi."), agent("Your user id?"), user("Lost."), call("get_trains", { user: "ada_king_4711" })],
    ],
    [
      "shown before it is named",
      [...fair.slice(0, 3), call("get_trains", {}, '["QX81LM"]'), user("QX81LM then."), bye("Bye.")],
    ],
    [
      "turned down",
      [...fair.slice(0, 3), user("No panorama, please."), call("book_seat", { cabin: "panorama" }), bye("Bye.")],
    ],
    [
      "named but corrected",
      [
        ...fair.slice(0, 3),
        user("Panorama!"),
        user("No: basic."),
        call("book_seat", { cabin: "panorama" }),
        bye("Bye."),
      ],
    ],
    [
      "offered by the agent",
      [
        ...fair.slice(0, 3),
        agent("Would you like me to cancel it?"),
        user("Then cancel it."),
        call("cancel_seat", { seat: 4 }),
        bye("Bye."),
      ],
    ],
    [
      "withheld, but nothing hung on it",
      [user("Hi."), agent("Your user id, please?"), user("Lost."), call("book_seat", { seat: 4 }), bye("Bye.")],
    ],
    ["asked for and refused", [...fair.slice(0, 3), user("Please cancel my seat."), agent("I cannot."), bye("Bye.")]],
    ["a thankful farewell", [...fair.slice(0, 5), bye("That is all I needed. Thank you!")]],
  ])("does not blame the user for what is fair: %s", (_, conversation) => {
    expect(attribute(conversation)).toMatchObject({ fault: "agent" });
  });

  it("blames the environment for an end that cannot be reached or is nowhere told", () => {
    expect(attribute(fair, { facts: { ...facts, isReachable: false } })).toMatchObject({
      fault: "environment",
      rule: "wanted-end-unreachable",
    });
    const unknown = { ...facts, expectedCalls: [{ name: "teleport", arguments: json({}) }] };
    expect(attribute(fair, { facts: unknown })).toMatchObject({ fault: "environment", rule: "wanted-call-unknown" });
    const untold = { ...facts, instruction: "Your user id is ada_king_4711. You want a basic seat." };
    expect(attribute(fair, { facts: untold })).toMatchObject({ fault: "environment", rule: "end-not-determined" });
  });

  it("attributes recorded faults by their boundary, before anything that was said", () => {
    const failed = (boundary: Failure["boundary"], code = "x"): Partial<FailedEpisode> => ({
      outcome: "failed",
      failure: { boundary, code, message: "broke", retryable: false, cause: null },
    });
    const faultOf = (changes: Partial<FailedEpisode>): string => attribute([user("")], changes).fault;
    expect(faultOf(failed("engine"))).toBe("infrastructure");
    expect(faultOf(failed("user", "timeout"))).toBe("infrastructure");
    expect(faultOf(failed("user", "empty-reply"))).toBe("user");
    expect(faultOf(failed("environment"))).toBe("environment");
    expect(faultOf({ outcome: "aborted" })).toBe("infrastructure");
  });

  it("labels whatever was said, without end or error, in time that grows with the text", () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom(
        "[",
        "[your id",
        "a_".repeat(200),
        "[id ".repeat(200),
        "A".repeat(500),
        "no panorama ".repeat(50),
      ),
    );
    const said = fc.record({ type: fc.constantFrom("user" as const), text, hangsUp: fc.boolean() });
    const answered = fc.record({ type: fc.constantFrom("agent" as const), text });
    const called = fc.record({ name: fc.string(), values: fc.dictionary(fc.string(), fc.string()), result: text });
    const step = fc.oneof<[typeof said, typeof answered, fc.Arbitrary<ConversationStep>]>(
      said,
      answered,
      called.map(({ name, values, result }) => call(name, values, result)),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (conversation) => {
        expect(faults).toContain(attribute(conversation).fault);
      }),
      { numRuns: 30 },
    );
    const hostile = ["[id ".repeat(50_000), "a_".repeat(100_000), "'".repeat(100_000), "not ".repeat(50_000)];
    expect(attribute(hostile.map(user)).fault).toBe("agent");
  }, 10_000);

  it("leaves users alone who use their tools, and name what these showed", () => {
    const used: ConversationStep = {
      type: "user-call",
      name: "check_ticket",
      arguments: new Map(),
      result: "Ticket QX81LM is valid.",
      isError: false,
    };
    const asked = [agent("Please run check_ticket."), used, user("It says QX81LM."), agent("Again check_ticket.")];
    expect(attribute([...fair.slice(0, 3), ...asked, user("QX81LM, I said."), bye("Bye.")]).fault).toBe("agent");
  });

  it("needs no knowledge of a task", () => {
    const nothing: TaskFacts = {
      instruction: null,
      tools: [],
      userTools: [],
      expectedCalls: null,
      isReachable: null,
      knownFacts: [],
    };
    expect(attribute(fair, { facts: nothing }).fault).toBe("agent");
    expect(attribute([], { facts: nothing }).fault).toBe("agent");
  });
});

describe("judgeFault()", () => {
  it.each([
    ["fault: environment\n</think>\nfault: user\nbecause: It left.", "user"],
    ["fault: user\nfault: user\nbecause: It left.", "user"],
    ["fault: user\nfault: environment\nbecause: Both.", "agent"],
    ["<think>fault: user", "agent"],
  ])("reads %j as %s", async (text, fault) => {
    const episode = { conversation: fair, outcome: "completed", failure: null, facts } as const;
    const byRules = attribute(fair);
    const model = { complete: () => Promise.resolve({ text }) };
    expect(await judgeFault(model, episode, { byRules, guidelines: "" })).toMatchObject({ fault });
  });

  const episode: FailedEpisode = { conversation: fair, outcome: "completed", failure: null, facts };
  const byRules = attributeFault(episode);
  const answering = (text: string) => {
    const asked: string[] = [];
    const complete = (messages: readonly { readonly content: string }[]): Promise<{ readonly text: string }> => {
      asked.push(messages.map(({ content }) => content).join("\n"));
      return Promise.resolve({ text });
    };
    return { asked, model: { complete } };
  };

  it("asks with guidelines, instruction, wanted calls and conversation, and takes the label with its reason", async () => {
    const { model, asked } = answering("Fault: **environment**\nbecause: The guidelines forbid vouchers.");
    expect(await judgeFault(model, episode, { byRules, guidelines: "No vouchers." })).toEqual({
      fault: "environment",
      rule: "model-judge",
      evidence: "The guidelines forbid vouchers.",
      by: "judge",
    });
    for (const part of ["No vouchers.", "night train", "book_seat {", "customer: A seat, please.", "(hangs up)"]) {
      expect(asked[0]).toContain(part);
    }
  });

  it("keeps what the rules said when the answer cannot be read", async () => {
    for (const text of ["", "It was the moon.", "fault: moon"]) {
      expect(await judgeFault(answering(text).model, episode, { byRules, guidelines: "" })).toBe(byRules);
    }
  });

  it("does not ask about what a rule has explained", async () => {
    const { model, asked } = answering("fault: agent");
    const explained = { ...byRules, fault: "user", rule: "empty-line" } as const;
    expect(await judgeFault(model, episode, { byRules: explained, guidelines: "" })).toBe(explained);
    expect(asked).toEqual([]);
  });
});
