// The generator: a split and a number make a task, the same one in every process. Kinds and levels go round in a fixed
// cycle, so that any run of 21 tasks holds each of them once; the rest is drawn from the number.

import { createHash } from "node:crypto";
import type { Agenda } from "../../core/agenda.ts";
import { deriveSeed } from "../../lib/random.ts";
import { belongsTo, type BookshopSplit, Draw, type Kind, kinds, type Level, levels, World } from "./world.ts";
import { type Goal, type GoalCase, goalCases } from "./goals/index.ts";
import { type Shop, shopText } from "./shop.ts";
import { farewells, greetings } from "./words.ts";

export type Scenario = {
  readonly kind: Kind;
  readonly level: Level;
  readonly shop: Shop;
  /** In the order in which the user brings them up. */
  readonly goals: readonly Goal[];
  readonly agenda: Agenda;
  readonly instruction: string;
  /** SHA-256 (hex) of all of it. */
  readonly contentHash: string;
};

/**
 * Of the tasks and of how they are graded; enters every content hash. 2: four splits, no book by place, no listing of values. 3:
 * records say what is looked for before the id, and mark what belongs to another member.
 */
export const worldVersion = 3;

/** After so many numbers, kinds and levels repeat (7 and 3 share no divisor). */
export const cycleLength = kinds.length * levels.length;

export function placeInCycle(number: number): { readonly kind: Kind; readonly level: Level } {
  return { kind: kinds[number % kinds.length]!, level: levels[number % levels.length]! };
}

/** `seedName`: the split's own part in the seeds of its tasks. */
export type DrawnSplit = { readonly law: BookshopSplit; readonly seedName: string };

const drawnSplits: Readonly<Record<string, DrawnSplit>> = {
  train: { law: "train", seedName: "train" },
  // What it was called when there was no other test.
  validation: { law: "validation", seedName: "test" },
  test: { law: "test", seedName: "sealed" },
};

/** Of a split's name, `fresh:<seed>` included; `null`: there is none. */
export function drawnSplit(name: string): DrawnSplit | null {
  if (/^fresh:(0|[1-9]\d{0,14})$/.test(name)) return { law: "fresh", seedName: name };
  return Object.hasOwn(drawnSplits, name) ? drawnSplits[name]! : null;
}

export function createScenario({ law, seedName }: DrawnSplit, number: number): Scenario {
  const { kind, level } = placeInCycle(number);
  const draw = new Draw(law, deriveSeed(1, "bookshop", seedName, number));
  const cases = level === 3 ? casePair(draw, kind) : [draw.pick(casesOf(kind).filter((one) => one.level === level))];
  const world = new World(draw, { needsGold: cases.some((one) => one.needsGold) });
  const goals = cases.map((one) => ({ kind: one.kind, caseName: one.name, ...one.build(world) }));
  for (let extra = draw.between(goals.length === 1 ? 1 : 0, 3 - goals.length); extra > 0; extra--) {
    world.order({ status: draw.pick(["pending", "shipped", "delivered"]) });
  }
  if (draw.chance(0.5)) world.card();
  const shop = world.shop();
  const agenda = agendaOf(world, goals);
  const instruction = instructionOf(world, goals);
  return { kind, level, shop, goals, agenda, instruction, contentHash: hashOf({ shop, goals, agenda, instruction }) };
}

/** Two cases of different kinds, one of them `kind`. Pairs are split as ids are: no pair is in two splits. */
function casePair(draw: Draw, kind: Kind): readonly GoalCase[] {
  const first = draw.pick(casesOf(kind));
  const place = goalCases.indexOf(first);
  const partners = goalCases.filter((one, index) => one.kind !== kind && belongsTo(draw.split, place + index));
  // Questions ask about the data as it is before changes; a hand-over ends the chat.
  const rank = (one: GoalCase): number => (one.kind === "question" ? 0 : one.kind === "owner" ? 2 : 1);
  return [first, draw.pick(partners)].sort((a, b) => rank(a) - rank(b));
}

function casesOf(kind: Kind): readonly GoalCase[] {
  return goalCases.filter((one) => one.kind === kind);
}

function agendaOf({ draw, member }: World, goals: readonly Goal[]): Agenda {
  const introduction = draw.chance(0.3) ? ` This is ${member.id}.` : "";
  return {
    greetings: greetings.map((greeting) => `${greeting}${introduction}`),
    slots: [
      {
        name: "member",
        askedBy: ["member id", "member number", "membership", "your id", "who are you", "identify yourself"],
        answers: [`${member.id}.`, `I am ${member.id}.`, `Sure, ${member.id}.`],
      },
      { name: "name", askedBy: ["your name", "full name"], answers: [`${member.name}.`] },
    ],
    goals: goals.map((goal) => goal.agenda),
    farewells,
    patience: 4,
  };
}

function instructionOf({ member }: World, goals: readonly Goal[]): string {
  const [first, second] = goals.map((goal) => goal.instruction);
  const rest =
    second === undefined ? "" : ` When that is settled, one way or the other, there is a second thing. ${second}`;
  return (
    `You are ${member.name}, member ${member.id} of the bookshop Inkwell & Owl, writing to its night desk. ${first}${rest} ` +
    "Say only what you are asked for, in short sentences. Accept a refusal. Say goodbye when everything is settled."
  );
}

function hashOf(parts: Pick<Scenario, "shop" | "goals" | "agenda" | "instruction">): string {
  const goals = parts.goals.map(({ gold, facts }) => ({
    gold: gold.map((call) => [call.name, Object.fromEntries(call.arguments)]),
    facts,
  }));
  const { agenda, instruction } = parts;
  return createHash("sha256")
    .update(JSON.stringify({ worldVersion, shop: shopText(parts.shop), goals, agenda, instruction }))
    .digest("hex");
}
