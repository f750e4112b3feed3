// Wishes for which the desk has no tool. They go to the owner, which ends the chat; so as one of two goals it is the second.

import type { World } from "../world.ts";
import { nearMisses, ownerTimes, ownerWishes } from "../words.ts";
import type { Goal, GoalCase } from "./goal.ts";
import { call, orderReference, requestsOf } from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;

export const ownerCases: readonly GoalCase[] = [
  ownerCase("plain", 1, (world) => {
    const [wish, time] = world.draw.pair(ownerWishes, ownerTimes);
    return forOwner(world, `${wish} ${time}`, [`I would like to ${wish} ${time}.`, `May I ${wish} ${time}?`]);
  }),
  ownerCase("near-miss", 2, (world) => {
    const [wish, time] = world.draw.pair(nearMisses, ownerTimes);
    const order = world.order({ status: world.draw.pick(["pending", "shipped"]) });
    const { phrase } = orderReference(world, order, "given");
    return forOwner(world, `${wish} ${time}`, [
      `Can you ${wish} ${phrase} ${time}?`,
      `Please ${wish} ${phrase} ${time}.`,
    ]);
  }),
];

function ownerCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "owner", name, level, needsGold: false, build };
}

function forOwner(world: World, combination: string, wishes: readonly string[]): Parts {
  return {
    agenda: {
      name: "owner",
      requests: requestsOf(world, "owner", wishes),
      slots: [],
      confirmation: null,
      secondThought: null,
      settledBy: ["owner", "colleague", "hand", "pass", "forward", "transfer"],
      objections: [],
    },
    instruction: `You say: "${wishes[0]}" You accept whatever you are told.`,
    gold: [call("hand_over", { member_id: world.member.id })],
    facts: [],
    combination,
  };
}
