// Questions that a look-up answers. Nothing changes; the answer has to be said.

import type { AgendaGoal } from "../../../core/environment.ts";
import { formats, type Order } from "../shop.ts";
import { streetKinds } from "../words.ts";
import type { World } from "../world.ts";
import type { Fact, Goal, GoalCase } from "./goal.ts";
import {
  amountFact,
  call,
  cardReference,
  daysFact,
  type Knowledge,
  objectionsOf,
  orderReference,
  plainKnowledge,
  requestsOf,
  told,
} from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;
type Aspect = "when" | "total" | "where";

export const questionCases: readonly GoalCase[] = [
  questionCase("when", 1, (world) => aboutOrder(world, "when", plainKnowledge(world))),
  questionCase("total", 1, (world) => aboutOrder(world, "total", plainKnowledge(world))),
  questionCase("where", 1, (world) => aboutOrder(world, "where", plainKnowledge(world))),
  questionCase("balance", 1, (world) => aboutCard(world, plainKnowledge(world))),
  questionCase("price", 1, aboutPrice),
  questionCase("lost", 2, (world) => aboutOrder(world, world.draw.pick(["when", "total", "where"]), "lost")),
  questionCase("lost-card", 2, (world) => aboutCard(world, "lost")),
  questionCase("foreign", 2, aboutForeignOrder),
];

function questionCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "question", name, level, needsGold: false, build };
}

function aboutOrder(world: World, aspect: Aspect, knowledge: Knowledge): Parts {
  const order = anyOrder(world);
  const { agenda, instruction } = orderQuestion(world, order, { aspect, knowledge });
  const titles = world.titlesOf(order).join();
  return { agenda, instruction, gold: [], facts: [answerOf(world, order, aspect)], combination: `${aspect} ${titles}` };
}

function aboutForeignOrder(world: World): Parts {
  const order = world.order({ status: world.draw.pick(["pending", "shipped"]), member: world.stranger });
  const aspect = world.draw.pick(["when", "total", "where"] as const);
  const { agenda, instruction } = orderQuestion(world, order, { aspect, knowledge: plainKnowledge(world) });
  return {
    agenda: { ...agenda, objections: objectionsOf(world) },
    instruction,
    gold: [call("decline", { id: order.id, rule: 1 })],
    facts: [],
    combination: `${aspect} ${world.titlesOf(order).join()}`,
  };
}

function aboutCard(world: World, knowledge: Knowledge): Parts {
  const card = world.card();
  const reference = cardReference(card, knowledge);
  const requests = [`How much is left on ${reference.phrase}?`, `What is the balance of ${reference.phrase}?`];
  return {
    agenda: {
      ...plainQuestion("balance", requestsOf(world, "question", requests)),
      slots: [reference.slot],
      settledBy: ["$", "dollars"],
    },
    instruction: `You want to know how much is left on ${reference.prose}.`,
    gold: [],
    facts: [amountFact(world, card.balance)],
    combination: world.member.name,
  };
}

function aboutPrice(world: World): Parts {
  const [known, wanted] = world.draw.shuffle(formats);
  const title = world.title();
  const book = world.edition(title, known!);
  const other = world.edition(title, wanted!);
  const kind = wanted === "audio" ? "an audio book" : `a ${wanted}`;
  return {
    agenda: {
      ...plainQuestion(
        "price",
        requestsOf(world, "question", [
          `What does ${title}, ${book.id}, cost as ${kind}?`,
          `I saw ${title}, ${book.id}, in the window. How much is it as ${kind}?`,
        ]),
      ),
      settledBy: ["$", "dollars"],
    },
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
): Pick<Goal, "agenda" | "instruction"> {
  const reference = orderReference(world, order, knowledge);
  const agenda = {
    ...plainQuestion(aspect, requestsOf(world, "question", questionsOf(aspect, reference.phrase))),
    slots: [reference.slot],
    settledBy: { when: ["days", "day"], total: ["$", "dollars"], where: streetKinds }[aspect],
  };
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
      return amountFact(
        world,
        order.books.reduce((sum, book) => sum + world.editionOf(book).price, 0),
      );
    case "where":
      return told(world, { source: order.address, said: [order.address] });
    default:
      return aspect satisfies never;
  }
}

/** A goal with nothing to say yes to. */
function plainQuestion(name: string, requests: readonly string[]): AgendaGoal {
  return { name, requests, slots: [], confirmation: null, secondThought: null, settledBy: [], objections: [] };
}
