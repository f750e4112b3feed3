// Questions that a look-up answers. Nothing changes; the answer has to be said.

import { formats, type Order } from "../shop.ts";
import { streetKinds } from "../words.ts";
import type { World } from "../world.ts";
import {
  agendaOf,
  amountFact,
  cardReference,
  daysFact,
  type Fact,
  forbidden,
  goalCase,
  type GoalCase,
  type GoalParts,
  type Knowledge,
  orderReference,
  plainKnowledge,
  requestsOf,
  told,
  type Wish,
} from "./goal.ts";

type Aspect = "when" | "total" | "where";

export const questionCases: readonly GoalCase[] = [
  goalCase("question", "when", 1, (world) => aboutOrder(world, "when", plainKnowledge(world))),
  goalCase("question", "total", 1, (world) => aboutOrder(world, "total", plainKnowledge(world))),
  goalCase("question", "where", 1, (world) => aboutOrder(world, "where", plainKnowledge(world))),
  goalCase("question", "balance", 1, (world) => aboutCard(world, plainKnowledge(world))),
  goalCase("question", "price", 1, aboutPrice),
  goalCase("question", "lost", 2, (world) => aboutOrder(world, world.draw.pick(["when", "total", "where"]), "lost")),
  goalCase("question", "lost-card", 2, (world) => aboutCard(world, "lost")),
  goalCase("question", "foreign", 2, aboutForeignOrder),
];

function aboutOrder(world: World, aspect: Aspect, knowledge: Knowledge): GoalParts {
  const order = anyOrder(world);
  const { agenda, instruction } = orderQuestion(world, order, { aspect, knowledge });
  const titles = world.titlesOf(order).join();
  return { agenda, instruction, gold: [], facts: [answerOf(world, order, aspect)], combination: `${aspect} ${titles}` };
}

function aboutForeignOrder(world: World): GoalParts {
  const order = world.order({ status: world.draw.pick(["pending", "shipped"]), member: world.stranger });
  const aspect = world.draw.pick(["when", "total", "where"] as const);
  const wish = orderQuestion(world, order, { aspect, knowledge: plainKnowledge(world) });
  const combination = `${aspect} ${world.titlesOf(order).join()}`;
  return forbidden(world, wish, { id: order.id, rule: 1, said: [], combination });
}

function aboutCard(world: World, knowledge: Knowledge): GoalParts {
  const card = world.card();
  const reference = cardReference(card, knowledge);
  const requests = [`How much is left on ${reference.phrase}?`, `What is the balance of ${reference.phrase}?`];
  return {
    agenda: agendaOf("balance", requestsOf(world, "question", requests), {
      slots: [reference.slot],
      settledBy: ["$", "dollars"],
    }),
    instruction: `You want to know how much is left on ${reference.prose}.`,
    gold: [],
    facts: [amountFact(world, card.balance)],
    combination: world.member.name,
  };
}

function aboutPrice(world: World): GoalParts {
  const [known, wanted] = world.draw.shuffle(formats);
  const title = world.title();
  const book = world.edition(title, known!);
  const other = world.edition(title, wanted!);
  const kind = wanted === "audio" ? "an audio book" : `a ${wanted}`;
  const requests = requestsOf(world, "question", [
    `What does ${title}, ${book.id}, cost as ${kind}?`,
    `I saw ${title}, ${book.id}, in the window. How much is it as ${kind}?`,
  ]);
  return {
    agenda: agendaOf("price", requests, { settledBy: ["$", "dollars"] }),
    instruction: `You saw "${title}" (book ${book.id}) and want to know what it costs as ${kind}.`,
    gold: [],
    facts: [amountFact(world, other.price)],
    combination: `${title} ${wanted}`,
  };
}

function anyOrder(world: World): Order {
  return world.order({ status: world.draw.pick(["pending", "shipped", "delivered"]), books: world.draw.between(1, 2) });
}

function orderQuestion(
  world: World,
  order: Order,
  { aspect, knowledge }: { aspect: Aspect; knowledge: Knowledge },
): Wish {
  const reference = orderReference(world, order, knowledge);
  const agenda = agendaOf(aspect, requestsOf(world, "question", questionsOf(aspect, reference.phrase)), {
    slots: [reference.slot],
    settledBy: { when: ["days", "day"], total: ["$", "dollars"], where: streetKinds }[aspect],
  });
  const wanted = { when: "when it comes or came", total: "what it cost", where: "to which address it goes" }[aspect];
  return { agenda, instruction: `You want to know about ${reference.prose}: ${wanted}.` };
}

function questionsOf(aspect: Aspect, order: string): readonly string[] {
  switch (aspect) {
    case "when":
      return [`When does ${order} get here?`, `How many days until ${order} comes, or did I miss it?`];
    case "total":
      return [`What did I pay for ${order}?`, `How much was ${order}?`];
    case "where":
      return [`Where does ${order} go?`, `Which address did I put on ${order}?`];
    default:
      return aspect satisfies never;
  }
}

function answerOf(world: World, order: Order, aspect: Aspect): Fact {
  switch (aspect) {
    case "when":
      return daysFact(world, order.days);
    case "total":
      return amountFact(world, world.totalOf(order));
    case "where":
      return told(world, { source: order.address, said: [order.address] });
    default:
      return aspect satisfies never;
  }
}
