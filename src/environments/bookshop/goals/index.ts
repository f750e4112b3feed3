// All cases of all kinds. The place of a case in this list decides which pairs of cases are test tasks (`scenario.ts`),
// so new cases go to the end.

import { addressCases } from "./address.ts";
import { cancelCases } from "./cancel.ts";
import type { GoalCase } from "./goal.ts";
import { ownerCases } from "./owner.ts";
import { questionCases } from "./question.ts";
import { returnCases } from "./return.ts";
import { swapCases } from "./swap.ts";
import { topUpCases } from "./top-up.ts";

export const goalCases: readonly GoalCase[] = [
  ...questionCases,
  ...cancelCases,
  ...addressCases,
  ...returnCases,
  ...swapCases,
  ...topUpCases,
  ...ownerCases,
];

export type { Fact, Goal, GoalCase } from "./goal.ts";
