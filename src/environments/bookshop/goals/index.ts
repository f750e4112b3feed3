// All cases of all kinds. The position of a case in this list decides which pairs of cases are test
// tasks (`scenario.ts`), so new cases go to the end.

import { returnCases, swapCases } from "./books.ts";
import { ownerCases, topUpCases } from "./cards.ts";
import type { GoalCase } from "./goal.ts";
import { addressCases, cancelCases } from "./orders.ts";
import { questionCases } from "./question.ts";

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
