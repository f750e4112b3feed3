// Costs of models behind an API: prices, which a user may know better than our list, and the budget
// of a run. Dollars are counted when an episode has ended, so the cost of episodes in flight comes
// on top of the budget.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import type { CallLimits } from "../chat-models/index.ts";
import { listPrices, priceOf, type PriceTable } from "../chat-models/chat-model.ts";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { anyNames } from "../lib/any-names.ts";
import type { RunTotals } from "../rollout/loop.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { Surroundings } from "./surroundings.ts";
import { requireRegularSync } from "../system/regular-file.ts";

const price = z.strictObject({ input: z.number().min(0), output: z.number().min(0) });

/** Rate limit of each model behind an API; a worker gets its share of it. */
export function ratesOf(
  { modelRequestsPerMinute: most }: Pick<RolloutSettings, "modelRequestsPerMinute">,
  { share }: Pick<Surroundings, "share">,
): Pick<CallLimits, "requestsPerMinute"> {
  if (most === null) return {};
  return { requestsPerMinute: share === undefined ? most : () => most / share.workers };
}

/**
 * The built-in prices, overridden by those of `--prices`. Throws a `ConfigurationError` for a file
 * that holds no prices.
 */
export function pricesOf({ prices: file }: Pick<RolloutSettings, "prices">, cwd: string): PriceTable {
  if (file === null) return listPrices;
  const shape =
    'expected a JSON object like {"my-model": {"input": 0.5, "output": 1.5}}, in US dollars per million tokens';
  let parsed: unknown;
  try {
    requireRegularSync(resolve(cwd, file));
    parsed = JSON.parse(readFileSync(resolve(cwd, file), "utf8"));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read prices from "${file}": ${messageOf(cause)}; ${shape}.`, { cause });
  }
  const read = anyNames(price).safeParse(parsed);
  if (read.success) return { ...listPrices, ...read.data };
  const [issue] = read.error.issues;
  throw new ConfigurationError(
    `Cannot read prices from "${file}": "${issue?.path.join(".") ?? ""}" is not a price; ${shape}.`,
  );
}

/** Throws a `ConfigurationError` for a budget if no cost can be counted. */
export function checkBudget(settings: RolloutSettings, cwd: string): void {
  const prices = pricesOf(settings, cwd);
  if (settings.maxCost === null) return;
  for (const name of ["agentModel", "userModel", "judgeModel"] as const) {
    const model = settings[name];
    if (model === null || priceOf(model, prices) !== null) continue;
    throw new ConfigurationError(
      `Cannot keep to --max-cost: the price of "${model}" is not known; add it to a file passed with --prices, in US dollars per million tokens ({"input": 0, "output": 0} for a server of your own).`,
    );
  }
}

export type Budget = {
  /** Aborts when the budget is spent: no further episode may begin. */
  readonly signal: AbortSignal;
  check(this: void, totals: () => RunTotals): void;
};

/** `maxCost`: US dollars. */
export function createBudget(maxCost: number, onNotice: (message: string) => void): Budget {
  const spent = new AbortController();
  const stop = (reason: string): void => {
    onNotice(
      `${reason}: no other episode begins, those in flight are finished. Resume the run with a larger --max-cost.`,
    );
    spent.abort();
  };
  return {
    signal: spent.signal,
    check: (totals) => {
      if (spent.signal.aborted) return;
      const cost = costOf(totals());
      if (cost === null) stop("What the models cost is not known, because a server does not report its tokens");
      else if (cost >= maxCost) stop(`The budget of $${maxCost} is spent ($${cost.toFixed(4)})`);
    },
  };
}

/** Cost of all models behind an API; `null` if unknown. */
function costOf({ agentCost, userCost, judgeCost }: RunTotals): number | null {
  return agentCost === null || userCost === null || judgeCost === null ? null : agentCost + userCost + judgeCost;
}
