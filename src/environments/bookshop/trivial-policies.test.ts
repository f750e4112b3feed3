import { expect, test } from "vitest";
import { type JsonObject, dumpJson } from "../../python-semantics/json/index.ts";
import { bookshopSource } from "./index.ts";
import { play, type TextAgent } from "./play.test-helper.ts";
import { tools } from "./environment.ts";

// Policies that always do one thing. Those of the second list copy ids out of the conversation,
// which a constant policy cannot.

const source = bookshopSource();
const examples = [1, 2, 3].map((index) => ({
  index,
  ids: idsOf(source.taskset("validation").task(index).instruction ?? ""),
}));

function idsOf(text: string): string[] {
  return text.match(/#[MWBC]\d{4}/g) ?? [];
}

function callText(name: string, args: Readonly<Record<string, string | number>>): string {
  const body: JsonObject = new Map<string, string | JsonObject>([
    ["name", name],
    ["arguments", new Map(Object.entries(args))],
  ]);
  return `<tool_call>\n${dumpJson(body)}\n</tool_call>`;
}

/** Arguments by parameter name; ids come from `id`. */
function argumentsFor(name: string, id: (kind: string) => string, rule: number): Record<string, string | number> {
  const values: Record<string, string | number> = {
    order_id: id("W"),
    book_id: id("B"),
    new_book_id: id("B"),
    card_id: id("C"),
    member_id: id("M"),
    id: name === "decline" ? id("W") : id("M"),
    address: "12 Elm Road",
    amount: 20,
    rule,
  };
  const wanted = {
    look_up: ["id"],
    cancel_order: ["order_id"],
    change_address: ["order_id", "address"],
    return_book: ["order_id", "book_id"],
    swap_book: ["order_id", "book_id", "new_book_id"],
    top_up_card: ["card_id", "amount"],
    decline: ["id", "rule"],
    hand_over: ["member_id"],
  }[name];
  return Object.fromEntries((wanted ?? []).map((key) => [key, values[key] ?? ""]));
}

const words = [
  "",
  "Hello!",
  "May I have your member id?",
  "Which order is it? May I have your member id?",
  "Do you confirm?",
  "I am sorry, I cannot do that.",
  "I will leave that to the owner.",
  "Done. Anything else?",
  "Done: it is cancelled, swapped, returned, sent and topped up. You get $12 back. Anything else?",
  `It takes ${Array.from({ length: 90 }, (_, day) => `${day + 2} days`).join(", ")}. Anything else?`,
  `It is ${Array.from({ length: 90 }, (_, amount) => `$${amount + 10}`).join(", ")}. Anything else?`,
  "It is pending, shipped, delivered, signed, sold out, too late, $10, $50, rule 4, rule 5, rule 6, rule 7.",
];

const constant: readonly (readonly [string, TextAgent])[] = [
  ...words.map((line) => [`says ${line.slice(0, 40)}`, () => line] as const),
  ...tools.flatMap(({ name }) =>
    examples.map(({ index, ids }) => {
      const id = (kind: string): string => ids.find((one) => one.startsWith(`#${kind}`)) ?? `#${kind}1042`;
      const text = callText(name, argumentsFor(name, id, 4));
      return [`calls ${name} as in task ${index}`, () => text] as const;
    }),
  ),
  ["breaks JSON", () => '<tool_call>\n{"name": "look_up"\n</tool_call>'],
];

const rules = [1, 4, 5, 6, 7];
const copying: readonly (readonly [string, TextAgent])[] = tools.flatMap(({ name }) =>
  (name === "decline" ? rules : [4]).flatMap((rule) =>
    ["W", "C"].map((subject) => {
      const agent: TextAgent = (prompt) => {
        const ids = idsOf(prompt.slice(prompt.indexOf("<|im_start|>user")));
        const last = (kind: string): string => ids.findLast((one) => one.startsWith(`#${kind}`)) ?? "";
        if (last("M") === "") return "May I have your member id? Which order or card number is it?";
        const id = (kind: string): string => (name === "decline" ? last(subject) : last(kind));
        return callText(name, argumentsFor(name, id, rule));
      };
      return [`asks, then calls ${name} (${rule}, ${subject}) with the last ids`, agent] as const;
    }),
  ),
);

/** Policies that look everything up correctly and then always end in the same way. */
const stubborn: readonly (readonly [string, TextAgent])[] = ["hand_over", ...rules].map((end) => {
  const agent: TextAgent = (prompt) => {
    const conversation = prompt.slice(prompt.indexOf("<|im_start|>user"));
    const ids = idsOf(conversation);
    const member = ids.find((id) => id.startsWith("#M"));
    const isRead = (id: string): boolean => conversation.includes(`{"id": "${id}"}`);
    if (member === undefined) return "May I have your member id?";
    if (!isRead(member)) return callText("look_up", { id: member });
    if (end === "hand_over") return callText("hand_over", { member_id: member });
    const subject = ids.findLast((id) => /#[WC]/.test(id));
    if (subject === undefined) return "Which order is it, or which card?";
    if (!isRead(subject)) return callText("look_up", { id: subject });
    if (conversation.includes(`Noted: ${subject}`)) return `I am sorry, I cannot: rule ${end}. Anything else?`;
    return callText("decline", { id: subject, rule: Number(end) });
  };
  return [`always ends with ${end}`, agent] as const;
});

/** A policy that looks up the subject of the question and then states every possible value. */
const listing: TextAgent = (prompt) => {
  const conversation = prompt.slice(prompt.indexOf("<|im_start|>user"));
  const isRead = (id: string): boolean => conversation.includes(`{"id": "${id}"}`);
  const ids = idsOf(conversation);
  const member = ids.find((id) => id.startsWith("#M"));
  if (member === undefined) return "May I have your member id?";
  const unread = [member, ids.findLast((id) => /#[WCB]/.test(id)) ?? member].find((id) => !isRead(id));
  if (unread !== undefined) return callText("look_up", { id: unread });
  if (!ids.some((id) => /#[WCB]/.test(id))) return "Which order is it, or which card?";
  const amounts = Array.from({ length: 90 }, (_, amount) => `$${amount + 10}, ${amount + 2} days`);
  return `It is ${amounts.join(", ")}, to ${/ to (.+?)\. #/.exec(conversation)?.[1] ?? "nowhere"}. Anything else?`;
};

test("who states every value there can be tells nothing", async () => {
  const questions = bookshopSource({ kinds: ["question"], levels: [1] }).taskset("validation");
  const passed: string[] = [];
  for (let index = 0; index < 40; index++) {
    const task = questions.task(index);
    const { grade } = await play(source, task, listing, { maxTurns: 12 });
    if (grade.reward === 1) passed.push(task.id);
  }
  expect(passed).toEqual([]);
});

test.each([
  ["constant", constant],
  ["copying", copying],
  ["stubborn", stubborn],
] as const)("the best %s policy passes at most 15 % of the tasks", async (_, policies) => {
  const tasks = source.taskset("validation");
  // Tasks cycle through the kinds.
  const count = process.env["FULL"] === "1" ? 210 : 105;
  const rates: (readonly [string, number])[] = [];
  for (const [name, agent] of policies) {
    let passed = 0;
    for (let index = 0; index < count; index++) {
      passed += (await play(source, tasks.task(index), agent, { maxTurns: 12 })).grade.reward;
    }
    rates.push([name, passed / count]);
  }
  const best = rates.reduce((one, other) => (other[1] > one[1] ? other : one));
  expect(best[1], `best: ${best[0]}`).toBeLessThanOrEqual(0.15);
  // Always handing over is right for members who want the owner, which shows that the test does
  // measure.
  if (policies === stubborn) expect(best[1]).toBeGreaterThan(0.05);
});
