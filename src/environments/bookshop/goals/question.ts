// Questions that a look-up answers. The data do not change; the answer has to be said.

import { formats, type Order } from "../shop.ts";
import { streetKinds } from "../words.ts";
import type { World } from "../world.ts";
import { spoken } from "./books.ts";
import {
  amountFact,
  cardReference,
  daysFact,
  type Fact,
  forbidden,
  goalCase,
  type GoalCase,
  type GoalParts,
  type Knowledge,
  noAim,
  orderReference,
  plainKnowledge,
  told,
  type Wish,
  wishOf,
} from "./goal.ts";

type Aspect = {
  readonly name: string;
  readonly wanted: string;
  readonly settledBy: readonly string[];
  readonly requests: (order: string) => readonly string[];
  readonly answer: (world: World, order: Order) => Fact;
};

const when: Aspect = {
  name: "when",
  wanted: "when it comes or came",
  settledBy: ["days", "day"],
  requests: (order) => [`When does ${order} get here?`, `How many days until ${order} comes, or did I miss it?`],
  answer: (world, order) => daysFact(world, order.days),
};
const total: Aspect = {
  name: "total",
  wanted: "what it cost",
  settledBy: ["$", "dollars"],
  requests: (order) => [`What did I pay for ${order}?`, `How much was ${order}?`],
  answer: (world, order) => amountFact(world, world.totalOf(order)),
};
const where: Aspect = {
  name: "where",
  wanted: "to which address it goes",
  settledBy: streetKinds,
  requests: (order) => [`Where does ${order} go?`, `Which address did I put on ${order}?`],
  answer: (world, order) => told(world, order.address, [order.address]),
};
const aspects = [when, total, where];

export const questionCases: readonly GoalCase[] = [
  goalCase("question", "when", 1, (world) => aboutOrder(world, when, plainKnowledge(world))),
  goalCase("question", "total", 1, (world) => aboutOrder(world, total, plainKnowledge(world))),
  goalCase("question", "where", 1, (world) => aboutOrder(world, where, plainKnowledge(world))),
  goalCase("question", "balance", 1, (world) => aboutCard(world, plainKnowledge(world))),
  goalCase("question", "price", 1, aboutPrice),
  goalCase("question", "lost", 2, (world) => aboutOrder(world, world.draw.pick(aspects), "lost")),
  goalCase("question", "lost-card", 2, (world) => aboutCard(world, "lost")),
  goalCase("question", "foreign", 2, aboutForeignOrder),
];

function aboutOrder(world: World, aspect: Aspect, knowledge: Knowledge): GoalParts {
  const status = world.draw.pick(["pending", "shipped", "delivered"] as const);
  const order = world.order({ status, books: world.draw.between(1, 2) });
  const wish = orderQuestion(world, order, aspect, knowledge);
  const combination = `${aspect.name} ${world.titlesOf(order).join()}`;
  return { ...wish, gold: [], facts: [aspect.answer(world, order)], combination };
}

function aboutForeignOrder(world: World): GoalParts {
  const order = world.order({ status: world.draw.pick(["pending", "shipped"]), member: world.stranger });
  const aspect = world.draw.pick(aspects);
  const wish = orderQuestion(world, order, aspect, plainKnowledge(world));
  const combination = `${aspect.name} ${world.titlesOf(order).join()}`;
  return forbidden(world, wish, { id: order.id, rule: 1, said: [], combination });
}

function aboutCard(world: World, knowledge: Knowledge): GoalParts {
  const card = world.card();
  const { phrase, prose, slot } = cardReference(card, knowledge);
  const wish = wishOf(world, "question", {
    name: "balance",
    requests: [`How much is left on ${phrase}?`, `What is the balance of ${phrase}?`],
    slots: [slot],
    confirmation: null,
    settledBy: ["$", "dollars"],
    instruction: `You want to know how much is left on ${prose}.`,
  });
  return { ...wish, gold: [], facts: [amountFact(world, card.balance)], combination: world.member.name };
}

function aboutPrice(world: World): GoalParts {
  const [known, wanted] = world.draw.shuffle(formats);
  const title = world.title();
  const book = world.edition(title, known!);
  const other = world.edition(title, wanted!);
  const kind = spoken(wanted!);
  const wish = wishOf(world, "question", {
    name: "price",
    requests: [
      `What does ${title}, ${book.id}, cost as ${kind}?`,
      `I saw ${title}, ${book.id}, in the window. How much is it as ${kind}?`,
    ],
    ...noAim,
    settledBy: ["$", "dollars"],
    instruction: `You saw "${title}" (book ${book.id}) and want to know what it costs as ${kind}.`,
  });
  return { ...wish, gold: [], facts: [amountFact(world, other.price)], combination: `${title} ${wanted}` };
}

function orderQuestion(world: World, order: Order, aspect: Aspect, knowledge: Knowledge): Wish {
  const { phrase, prose, slot } = orderReference(world, order, knowledge);
  return wishOf(world, "question", {
    name: aspect.name,
    requests: aspect.requests(phrase),
    slots: [slot],
    confirmation: null,
    settledBy: aspect.settledBy,
    instruction: `You want to know about ${prose}: ${aspect.wanted}.`,
  });
}
