// The world of one episode: the shop's data, the desk's actions, and the grade. Graded as in
// τ-bench: the data must equal its gold end state, breaches of the rules included, and the facts
// that the member wanted must have been said. Pure apart from its own state: no clock, no
// randomness, no user.

import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { createHash } from "node:crypto";
import type { Environment, EnvironmentCall, Task, ToolResult } from "../../core/environment.ts";
import { mentions } from "../../lib/text.ts";
import { brokenRules, readChange, shown } from "./change.ts";
import { numberWords } from "./goals/goal.ts";
import type { Scenario } from "./scenario.ts";
import { copyShop, describeRecord, type Shop, shopText, textOf } from "./shop.ts";

/**
 * The guidelines and the tools that the policy is shown. Short on purpose: their text is in every
 * prompt, and a language model of a million parameters has to cope with it. `brokenRules` is the
 * guidelines in code; `decline` cites their numbers.
 */
export const guidelines = `You are the night desk of Inkwell & Owl, a small bookshop with an owl. Members write to you. The till does whatever you tell it, so keep these rules:

1. Ask for the member id and look it up first. Serve this member only, never the order or card of somebody else.
2. Look up an order, book or card before you speak of it or touch it. Never invent anything.
3. Before a change, say the ids and what will change, and ask "Do you confirm?". Change it only after a yes.
4. Only a pending order can be cancelled, sent to another address or swapped.
5. Swap a book only for an edition of the same title that is in stock.
6. Take back only delivered books, up to 30 days after delivery, for gold members up to 60. Never signed copies.
7. Put $10 to $50 on a gift card at a time.
8. If a rule forbids a request, call decline with the order or card and the number of the rule, then say why.
9. Anything else that members want, hand over to the owner.
10. One tool call or one message at a time. After a change, tell the day or the amount that the till reports, and ask "Anything else?".`;

/** Tools in the order in which prompts show them. */
export const tools: readonly Tool[] = [
  tool("look_up", "Read a member, order, book or card.", { id: "string" }),
  tool("cancel_order", "Cancel a whole order.", { order_id: "string" }),
  tool("change_address", "Send an order elsewhere.", { order_id: "string", address: "string" }),
  tool("return_book", "Take back a book.", { order_id: "string", book_id: "string" }),
  tool("swap_book", "Swap a book for another edition.", {
    order_id: "string",
    book_id: "string",
    new_book_id: "string",
  }),
  tool("top_up_card", "Put dollars on a card.", { card_id: "string", amount: "integer" }),
  tool("decline", "Note that a rule forbids a request.", { id: "string", rule: "integer" }),
  tool("hand_over", "Leave a member to the owner. Ends the chat.", { member_id: "string" }),
];

function tool(name: string, description: string, types: Readonly<Record<string, "string" | "integer">>): Tool {
  const properties = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }]));
  const parameters = { type: "object", properties, required: Object.keys(types) };
  const definition = fromPlain({ type: "function", function: { name, description, parameters } });
  if (!(definition instanceof Map))
    throw new TypeError(`Cannot define tool "${name}": its definition is not an object.`);
  return toolFromDefinition(definition);
}

/**
 * Number of unreported amounts and days that an agent may state. Beyond it the agent is guessing,
 * and no fact counts as told from then on.
 */
const guessesAllowed = 3;

export function createBookshop(task: Task, scenario: Scenario): Environment {
  const shop = copyShop(scenario.shop);
  const unsaid = new Set(scenario.goals.flatMap((goal) => goal.facts));
  const reported: string[] = [];
  let servedMember: string | null = null;
  let saidSinceChange: string[] = [];
  let [toolErrors, lookUps, changes] = [0, 0, 0];
  const known = new Set(statedValues(`${guidelines} ${JSON.stringify(task.agenda)}`));
  const guesses = new Set<string>();

  const report = (text: string, endsEpisode = false): ToolResult => {
    reported.push(text);
    for (const value of statedValues(text)) known.add(value);
    return { text, isError: false, endsEpisode, info: new Map() };
  };
  const fail = (text: string): ToolResult => {
    toolErrors++;
    return { text, isError: true, endsEpisode: false, info: new Map() };
  };
  const lookUp = (id: string): ToolResult => {
    const text = describeRecord(shop, id, servedMember);
    if (text === null) return fail(`Error: no record ${shown(id)}.`);
    lookUps++;
    if (shop.members.has(id)) servedMember ??= id;
    return report(text);
  };
  const makeChange = (call: EnvironmentCall): ToolResult => {
    const change = readChange(shop, call);
    if (change.type === "error") return fail(change.text);
    for (const rule of brokenRules(change, { servedMember, reported, saidSinceChange })) {
      shop.breaches.add(`rule ${rule} by ${call.name}`);
    }
    changes++;
    saidSinceChange = [];
    return report(change.apply(), change.endsEpisode);
  };

  return {
    task,
    guidelines,
    tools,
    info: new Map<string, JsonValue>([
      ["kind", scenario.kind],
      ["level", scenario.level],
      ["cases", scenario.goals.map((goal) => `${goal.kind}/${goal.caseName}`)],
    ]),
    call: (call) => (call.name === "look_up" ? lookUp(textOf(call.arguments, "id")) : makeChange(call)),
    receiveUtterance: (utterance) => {
      saidSinceChange.push(utterance);
      for (const value of statedValues(utterance)) if (!known.has(value)) guesses.add(value);
      if (guesses.size > guessesAllowed) return;
      for (const fact of unsaid) {
        const isKnown = fact.sources.every((source) => reported.some((text) => mentions(text, source)));
        if (isKnown && fact.said.some((way) => mentions(utterance, way))) unsaid.delete(fact);
      }
    },
    grade: ({ outcome }) => {
      const gold = goldShop(task, scenario);
      const isStateRight = shopText(shop) === shopText(gold);
      const log = [
        isStateRight ? "The data is as it should be." : "The data is not as it should be.",
        ...[...unsaid].map((fact) => `Not told: ${fact.said[0]}.`),
        ...(guesses.size > guessesAllowed ? [`Guessed: ${[...guesses].join(", ")}.`] : []),
        ...[...shop.breaches].map((breach) => `Broken: ${breach}.`),
        ...(outcome === "completed" ? [] : [`Cut off: ${outcome}.`]),
      ].join(" ");
      const metrics = {
        stateRight: isStateRight ? 1 : 0,
        factsUnsaid: unsaid.size,
        ruleViolations: shop.breaches.size,
        toolErrors,
        lookUps,
        changes,
      };
      const reward = outcome === "completed" && isStateRight && unsaid.size === 0 ? 1 : 0;
      return { reward, metrics, log, info: reward === 1 ? new Map() : explanation(scenario, shop, gold) };
    },
    digest: () => createHash("sha256").update(shopText(shop)).digest("hex"),
  };
}

/** Amounts and numbers of days in a text, such as `$12` and `5 days`. */
function statedValues(text: string): readonly string[] {
  const amounts = [...text.matchAll(/\$(\d+)|\b(\d+) dollars\b/gi)].map(([, sign, word]) => `$${Number(sign ?? word)}`);
  const days = [...text.matchAll(/\b(\w+) days\b/gi)].flatMap(([, word = ""]) => {
    const place = numberWords.indexOf(word.toLowerCase());
    return place === -1 && !/^\d+$/.test(word) ? [] : [`${place === -1 ? Number(word) : place + 2} days`];
  });
  return [...amounts, ...days];
}

/** Explanation for viewers: see `Grade.info`. */
function explanation({ goals }: Scenario, found: Shop, gold: Shop): JsonObject {
  const actions = goals.flatMap(({ gold: calls }) =>
    calls.map(
      ({ name, arguments: given }) =>
        new Map<string, JsonValue>([
          ["name", name],
          ["arguments", given],
        ]),
    ),
  );
  const difference = [...recordIds(found, gold)].flatMap((record) => {
    const [expected, actual] = [describeRecord(gold, record), describeRecord(found, record)];
    return expected === actual
      ? []
      : [
          new Map<string, JsonValue>([
            ["record", record],
            ["expected", expected],
            ["found", actual],
          ]),
        ];
  });
  return new Map<string, JsonValue>([
    ["expected_actions", actions],
    ["state_difference", difference],
  ]);
}

function recordIds(...shops: readonly Shop[]): ReadonlySet<string> {
  return new Set(
    shops.flatMap(({ members, editions, orders, cards }) =>
      [members, editions, orders, cards].flatMap((one) => [...one.keys()]),
    ),
  );
}

function goldShop(task: Task, scenario: Scenario): Shop {
  const shop = copyShop(scenario.shop);
  for (const call of scenario.goals.flatMap((goal) => goal.gold)) {
    const change = readChange(shop, call);
    if (change.type === "error") throw new Error(`Cannot reach the gold state of "${task.id}": ${change.text}`);
    change.apply();
  }
  return shop;
}
