import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Agenda, type AgendaGoal, ConfigurationError, type UserLine } from "../core/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { createRandom } from "../lib/random.ts";
import { agendaUser } from "./index.ts";
import { testTask } from "./test-task.test-helper.ts";

const cancel: AgendaGoal = {
  name: "cancel",
  requests: ["Please cancel my order."],
  slots: [{ name: "order", phrases: ["order number", "which order"], answers: ["It is #W1042."] }],
  confirmation: { mustName: [["#W1042", "The Salt Moon"]], corrections: ["No, I mean #W1042."] },
  secondThought: null,
  settledBy: ["been cancelled", "is cancelled"],
  objections: [],
};
const ask: AgendaGoal = {
  name: "balance",
  requests: ["How much is on my card?"],
  slots: [],
  confirmation: null,
  secondThought: null,
  settledBy: ["$"],
  objections: [],
};

function agendaOf(goals: readonly AgendaGoal[], patience = 3): Agenda {
  return {
    greetings: ["Hello!"],
    slots: [{ name: "member", phrases: ["member id"], answers: ["I am #M2071."] }],
    goals,
    farewells: ["That is all."],
    patience,
  };
}

/**
 * The user's lines in reply to the agent's, beginning with the opening; ends with the text of the
 * hang-up in brackets.
 */
async function converse(agenda: Agenda, agent: readonly string[], seed = 1): Promise<string[]> {
  const user = agendaUser().create(testTask({ agenda }), { seed });
  const show = ({ type, text }: UserLine): string => (type === "hang-up" ? `[${text}]` : text);
  const lines = [show(await user.open())];
  for (const words of agent) lines.push(show(await user.reply(words)));
  return lines;
}

describe("agendaUser()", () => {
  test("refuses a task without an agenda, naming the users that can play it", () => {
    const create = (): unknown => agendaUser().create(testTask(), { seed: 1 });
    expect(create).toThrow(ConfigurationError);
    expect(create).toThrow('use "llm", "human" or "scripted"');
    expect(() => agendaUser().create(testTask({ agenda: agendaOf([]) }), { seed: 1 })).toThrow(ConfigurationError);
    expect(() => agendaUser().create(testTask({ agenda: agendaOf([ask], 0) }), { seed: 1 })).toThrow(
      ConfigurationError,
    );
  });

  test("answers what was asked and nothing else, says yes to what it wants, and hangs up when it is done", async () => {
    const lines = await converse(agendaOf([cancel]), [
      "Happy to help. Could you give me your member id?",
      "Thank you. Which order is it?",
      "I will cancel order #W1042 and refund $12. Do you confirm?",
      "Order #W1042 has been cancelled. Is there anything else I can do for you?",
    ]);
    expect(lines.slice(0, 3)).toEqual(["Hello! Please cancel my order.", "I am #M2071.", "It is #W1042."]);
    expect(lines[3]).toMatch(/^Yes/);
    expect(lines[4]).toBe("[That is all.]");
  });

  test("answers two questions in one line, in the order of its slots", async () => {
    const lines = await converse(agendaOf([cancel]), ["Please share your member ID and the order number."]);
    expect(lines[1]).toBe("It is #W1042. I am #M2071.");
  });

  test("puts a wrong proposal right, and a vague one", async () => {
    const lines = await converse(agendaOf([cancel]), [
      "I will cancel order #W10421. Do you confirm?",
      "Shall I go ahead?",
      "So that is The Salt Moon that I cancel, is that correct?",
    ]);
    expect(lines.slice(1, 3)).toEqual(["No, I mean #W1042.", "No, I mean #W1042."]);
    expect(lines[3]).toMatch(/^Yes/);
  });

  test("thinks again once, and then compares with its new wish", async () => {
    const goal: AgendaGoal = {
      ...cancel,
      secondThought: {
        utterances: ["Wait, #W3317 instead."],
        slots: [{ name: "order", phrases: ["which order"], answers: ["It is #W3317."] }],
        confirmation: { mustName: [["#W3317"]], corrections: ["No, #W3317."] },
      },
    };
    const lines = await converse(agendaOf([goal]), [
      "I will cancel #W1042. Do you confirm?",
      "I will cancel #W1042. Do you confirm?",
      "Sorry, which order?",
      "I will cancel #W3317. Do you confirm?",
    ]);
    expect(lines.slice(1, 4)).toEqual(["Wait, #W3317 instead.", "No, #W3317.", "It is #W3317."]);
    expect(lines[4]).toMatch(/^Yes/);
  });

  test("brings up its second goal when the first is settled, also by a refusal", async () => {
    const goals = [{ ...cancel, objections: ["Not even for me?"] }, ask];
    const lines = await converse(agendaOf(goals), [
      "I am sorry, I cannot cancel it: it has shipped.",
      "Unfortunately not. Can I help you with anything else?",
      "There are $40 on your card. Anything else?",
    ]);
    expect(lines[1]).toBe("Not even for me?");
    expect(lines[2]).toMatch(/How much is on my card\?$/);
    expect(lines[3]).toBe("[That is all.]");
  });

  test("repeats its wish to an agent that wants to be done before it is", async () => {
    const lines = await converse(agendaOf([cancel]), ["Is there anything else?"]);
    expect(lines[1]).toBe("Please cancel my order.");
  });

  test("wants nothing changed when it only asked", async () => {
    const lines = await converse(agendaOf([ask]), ["Shall I put $20 on your card?", "It has $40 on it."]);
    expect(lines[1]).toMatch(/^No/);
    expect(lines[2]).toBe("[That is all.]");
  });

  test("hangs up when its patience runs out", async () => {
    const lines = await converse(agendaOf([cancel], 3), ["Hm.", "Let me check.", "What is the weather like?"]);
    expect(lines.slice(1, 3).every((line) => !line.startsWith("["))).toBe(true);
    expect(lines[3]).toMatch(/^\[.*Goodbye\.\]$/);
  });
});

test.each([
  "Before I cancel order #W1042, please confirm (yes/no).",
  "Here is what I will do:\n- cancel order #W1042\n- refund $12\n\nWould you like me to proceed?",
  "**Order #W1042** will be cancelled. Is that correct?",
  "I'm about to cancel the order with The Salt Moon. Are you okay with this? Shall I?",
  'Please reply "yes" to confirm the cancellation of #W1042.',
  "To cancel order #w1042, do you agree? Reply yes to go on.",
])("agendaUser() hears a proposal in %j", async (words) => {
  expect((await converse(agendaOf([cancel]), [words]))[1]).toMatch(/^Yes/);
});

test.each([
  ["I'd be glad to help! To get started, could you please provide your member ID?", "I am #M2071."],
  ["What's your member id?", "I am #M2071."],
  ["Please tell me the number of your order.", "It is #W1042."],
  ["I need to know which of your orders you mean.", "It is #W1042."],
  ["I’m sorry, I couldn’t find it. Can you confirm your member ID?", "I am #M2071."],
])("agendaUser() hears what %j asks for", async (words, answer) => {
  expect((await converse(agendaOf([cancel]), [words]))[1]).toBe(answer);
});

describe("on every bookshop task, whatever the agent says,", () => {
  const source = bookshopSource();
  const tasks = source.taskset("train");
  const phrases = [
    "May I have your member id?",
    "Which order is it?",
    "Which card? How much? What is the new address? Which edition? Which book?",
    "Do you confirm?",
    "I am sorry, I cannot.",
    "Anything else?",
    "Done. Anything else?",
    "It is cancelled. Anything else?",
    "",
    "?",
    "Order #W1042 to 12 Elm Road for $20, hardcover. Do you confirm?",
    "One moment please.",
    "<tool_call>",
  ];

  /**
   * Upper bound of lines: every answer, yes, second thought, objection and goal can occur once
   * without costing patience.
   */
  const mostLines = ({ goals, slots, patience }: Agenda): number =>
    patience +
    slots.length +
    goals.reduce(
      (sum, goal) => sum + goal.slots.length + (goal.secondThought?.slots.length ?? 0) + goal.objections.length + 3,
      0,
    );

  test("the user hangs up after a bounded number of lines, and says the same to the same words", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(5000),
        fc.nat(),
        fc.array(fc.oneof(fc.constantFrom(...phrases), fc.string()), { minLength: 1, maxLength: 8 }),
        async (index, seed, words) => {
          const task = tasks.task(index);
          const play = async (): Promise<readonly string[]> => {
            const random = createRandom(seed);
            const user = agendaUser().create(task, { seed });
            const lines = [(await user.open()).text];
            for (;;) {
              const line = await user.reply(echo(random.pick(words), task.agenda!));
              lines.push(line.text);
              if (line.type === "hang-up") return lines;
              if (lines.length > 100) throw new Error("The user never hangs up.");
            }
          };
          const lines = await play();
          expect(lines.length).toBeLessThanOrEqual(mostLines(task.agenda!) + 1);
          expect(lines.every((line) => line !== "")).toBe(true);
          expect(await play()).toEqual(lines);
        },
      ),
      { numRuns: 400, seed: 20 },
    );
  });

  /** Completes a question for confirmation to a proposal of exactly the user's goals. */
  function echo(words: string, agenda: Agenda): string {
    if (words !== "Do you confirm?") return words;
    const things = agenda.goals.flatMap((goal) => goal.confirmation?.mustName ?? []).map(([way]) => way);
    return `I will do it: ${things.join(", ")}. Do you confirm?`;
  }
});
