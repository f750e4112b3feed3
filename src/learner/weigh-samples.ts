// Played groups to weighted samples: how much better an episode was than those it is compared with, less the price of what it
// broke. The price does not depend on the group: where all of them broke the same rule there is nothing to compare, and a
// policy that gets further on its way would learn to break it every time.

import type { PlayedGroup } from "./collect-groups.ts";
import { type AdvantageOptions, groupAdvantages } from "./group-advantages.ts";
import type { WeightedSample } from "./policy-sequences.ts";

export type WeighOptions = AdvantageOptions & {
  /** Taken off the advantage of an episode for each rule that it broke (the grade's metric `ruleViolations`, if there is one). */
  readonly penalty: number;
};

/** The samples of all graded episodes that are better or worse than what they are compared with, or broke a rule. */
export function weighSamples(
  groups: readonly Pick<PlayedGroup, "episodes">[],
  options: WeighOptions,
): WeightedSample[] {
  const graded = groups.map(({ episodes }) =>
    episodes.flatMap(({ episode: { reward, grade }, result }) => {
      const price = options.penalty * (grade?.metrics["ruleViolations"] ?? 0);
      return reward === null ? [] : [{ samples: result.samples, reward, price }];
    }),
  );
  const rewards = graded.map((episodes) => episodes.map(({ reward }) => reward));
  const advantages = groupAdvantages(rewards, options);
  return graded.flatMap((episodes, group) =>
    episodes.flatMap(({ samples, price }, index) => {
      const advantage = advantages[group]![index]! - price;
      return advantage === 0 ? [] : samples.map((sample) => ({ sample, advantage }));
    }),
  );
}
