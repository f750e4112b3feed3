// The generator: a split and a number determine a task, the same one in every process. Kinds and
// levels follow a fixed cycle, so that any 21 consecutive tasks contain each combination once; the
// rest is drawn from the number.

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
  /** Goals in the order in which the user brings them up. */
  readonly goals: readonly Goal[];
  readonly agenda: Agenda;
  readonly instruction: string;
  /** SHA-256 (hex) of the whole scenario. */
  readonly contentHash: string;
};

/**
 * Version of the tasks and their grading; enters every content hash. 2: four splits, no book by
 * position, no listing of values. 3: records name the thing that is looked for before its id, and
 * mark records of another member.
 */
export const worldVersion = 3;

/** Kinds and levels repeat after this many numbers (7 and 3 are coprime). */
export const cycleLength = kinds.length * levels.length;

export function placeInCycle(number: number): { readonly kind: Kind; readonly level: Level } {
  return { kind: kinds[number % kinds.length]!, level: levels[number % levels.length]! };
}

/** `seedName`: the split's part of the seeds of its tasks. */
export type DrawnSplit = { readonly law: BookshopSplit; readonly seedName: string };

const drawnSplits: Readonly<Record<string, DrawnSplit>> = {
  train: { law: "train", seedName: "train" },
  // The seed name "test" dates from the time before there was another test split.
  validation: { law: "validation", seedName: "test" },
  test: { law: "test", seedName: "sealed" },
};

/** The split of a name, `fresh:<seed>` included; `null` if the name is unknown. */
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

/**
 * Two cases of different kinds, one of them `kind`. Pairs are assigned to splits as ids are: no
 * pair is in two splits.
 */
function casePair(draw: Draw, kind: Kind): readonly GoalCase[] {
  const first = draw.pick(casesOf(kind));
  const place = goalCases.indexOf(first);
  const partners = goalCases.filter((one, index) => one.kind !== kind && belongsTo(draw.split, place + index));
  // Questions come first, because they are about the data before any change; a hand-over comes
  // last, because it ends the chat.
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
        phrases: ["member id", "member number", "membership", "your id", "who are you", "identify yourself"],
        answers: [`${member.id}.`, `I am ${member.id}.`, `Sure, ${member.id}.`],
      },
      { name: "name", phrases: ["your name", "full name"], answers: [`${member.name}.`] },
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
