// Discoverable tools of the agent for credit limits, and the history of payments that decides on them.

import { isTruthy, pythonEquals, PythonError, pythonInt } from "../../../python-semantics/index.ts";
import { integerOf } from "../../../python-semantics/number-text.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, type Method } from "../toolkit.ts";
import { ownAccount, unknownAccount } from "./credit-card-tools.ts";
import { historyTool } from "./dispute-tools.ts";
import { hashId, today } from "./ids.ts";
import {
  fixedNumber,
  getField,
  isAnyMissing,
  isIn,
  latestFirst,
  parseAmount,
  recordOf,
  show,
  toNumber,
  toNumberIfAny,
  upper,
} from "./python.ts";
import { addRecord, type Entry, recordAt } from "./query.ts";

const missing = "Error: Missing required parameters.";

const limitRequestId = (accountId: JsonValue, userId: JsonValue, amount: number): string =>
  `cli_${hashId(`cli_request:${show(accountId)}:${show(userId)}:${fixedNumber(amount)}`, 12)}`;

const submitLimitIncrease = defineDiscoverableTool("write", {
  name: "submit_credit_limit_increase_request_7392",
  parameters: ["credit_card_account_id", "user_id", "requested_increase_amount"],
  run: ({ agent }, { credit_card_account_id, user_id, requested_increase_amount }) => {
    if (isAnyMissing(credit_card_account_id, user_id) || requested_increase_amount === null) return missing;
    const amount = toNumberIfAny(requested_increase_amount);
    if (amount === null) return "Error: Invalid requested_increase_amount. Must be a whole number.";
    if (!Number.isInteger(amount)) {
      return "Error: Invalid requested_increase_amount. Must be a whole number of dollars.";
    }
    if (amount <= 0) return "Error: Requested increase amount must be positive.";
    const account = ownAccount(agent, credit_card_account_id, user_id);
    if (typeof account === "string") return account;
    const id = limitRequestId(credit_card_account_id, user_id, amount);
    const dollars = integerOf(amount);
    const record = recordOf({
      request_id: id,
      credit_card_account_id,
      user_id,
      requested_increase_amount: dollars,
      submitted_at: today,
      status: "PENDING",
    });
    if (!addRecord(agent, "credit_limit_increase_requests", id, record)) {
      return "Error: A similar request may already exist.";
    }
    return [
      "Credit limit increase request submitted successfully.",
      "",
      "Executed: submit_credit_limit_increase_request_7392",
      `  - Request ID: ${id}`,
      `  - Account: ${account[0]}`,
      `  - Requested Increase: $${BigInt(dollars).toLocaleString("en-US")}`,
      "  - Status: PENDING",
    ].join("\n");
  },
});

/** `int(value)`; `null` where it raises a TypeError or a ValueError. */
function toInteger(value: JsonValue): number | bigint | null {
  try {
    if (value instanceof JsonFloat) return integerOf(value.value);
    if (typeof value === "boolean") return Number(value);
    return typeof value === "number" || typeof value === "bigint" ? value : pythonInt(value);
  } catch (error) {
    if (error instanceof PythonError && ["TypeError", "ValueError"].includes(error.pythonType)) return null;
    throw error;
  }
}

const paymentHistory = defineDiscoverableTool("read", {
  name: "get_payment_history_6183",
  parameters: ["credit_card_account_id", "months"],
  run: ({ agent }, { credit_card_account_id, months: given }) => {
    if (!isTruthy(credit_card_account_id) || given === null) {
      return "Error: Missing required parameters (credit_card_account_id, months).";
    }
    const months = toInteger(given);
    if (months === null) return "Error: Invalid months value. Must be a positive integer.";
    if (months <= 0) return "Error: months must be a positive integer.";
    const own: JsonObject[] = [];
    for (const [, payment] of agent.records("payment_history")) {
      if (pythonEquals(getField(payment, "credit_card_account_id"), credit_card_account_id)) own.push(payment);
    }
    const id = show(credit_card_account_id);
    if (own.length === 0) return `No payment history found for account '${id}'.`;
    const payments = latestFirst(own, "payment_date").slice(0, Number(months));
    const late = payments.findIndex((payment) => payment.get("status") !== "ON_TIME");
    return [
      `Payment history for account '${id}' (last ${months} months):`,
      `Consecutive on-time payments: ${late < 0 ? payments.length : late}`,
      ...payments.map((payment) => {
        const [date, amount, status] = ["payment_date", "amount", "status"].map((key) => show(getField(payment, key)));
        return `\n  - Payment Date: ${date}\n    Amount: ${amount}\n    Status: ${status}`;
      }),
    ].join("\n");
  },
});

const openDisputes = ["SUBMITTED", "UNDER_REVIEW", "PENDING"];
const openOrders = ["PENDING", "PROCESSING", "SHIPPED"];
const badStatuses = ["PAST_DUE", "DELINQUENT", "COLLECTIONS", "CLOSED"];

/** True if a dispute of the user, an order for the card, or the account's state forbids a higher limit. */
function isIneligible(database: Database, [id, account]: Entry, userId: JsonValue): boolean {
  for (const [, dispute] of database.records("transaction_disputes")) {
    const isOwn = pythonEquals(getField(dispute, "user_id"), userId);
    if (isOwn && isIn(getField(dispute, "status"), openDisputes)) return true;
  }
  for (const [, order] of database.records("credit_card_orders")) {
    if (order.get("credit_card_account_id") === id && isIn(getField(order, "status"), openOrders)) return true;
  }
  return isIn(upper(getField(account, "account_status", "")), badStatuses);
}

const approveLimitIncrease = defineDiscoverableTool("write", {
  name: "approve_credit_limit_increase_5847",
  parameters: ["credit_card_account_id", "user_id", "new_credit_limit"],
  run: ({ agent }, { credit_card_account_id, user_id, new_credit_limit }) => {
    if (isAnyMissing(credit_card_account_id, user_id) || new_credit_limit === null) return missing;
    const account = ownAccount(agent, credit_card_account_id, user_id);
    if (typeof account === "string") return account;
    if (isIneligible(agent, account, user_id)) {
      return "Error: Credit limit increase request cannot be approved at this time.";
    }
    const current = parseAmount(getField(account[1], "credit_limit", "$0.00"));
    const limit = toNumber(new_credit_limit);
    const [before, after, increase] = [current, limit, limit - current].map((amount) => `$${fixedNumber(amount)}`);
    agent.edit("credit_card_accounts", account[0]).set("credit_limit", after!);
    const id = limitRequestId(credit_card_account_id, user_id, limit - current);
    const record = recordOf({
      request_id: id,
      credit_card_account_id,
      user_id,
      previous_limit: before!,
      new_limit: after!,
      increase_amount: increase!,
      decision_date: today,
      status: "APPROVED",
    });
    addRecord(agent, "credit_limit_increase_requests", id, record);
    return [
      "Credit limit increase approved!",
      `  - Account: ${account[0]}`,
      `  - Previous Limit: ${before}`,
      `  - New Limit: ${after}`,
      `  - Increase: ${increase}`,
      `  - Effective Date: ${today}`,
      "The customer will receive a confirmation email.",
    ].join("\n");
  },
});

const denialReasons = [
  "insufficient_account_age",
  "cooldown_period_active",
  "pending_disputes",
  "pending_replacement_card",
  "past_due_balance",
  "high_utilization",
  "insufficient_payment_history",
  "requested_amount_exceeds_limit",
  "other",
];

const denyLimitIncrease = defineDiscoverableTool("write", {
  name: "deny_credit_limit_increase_5848",
  parameters: ["credit_card_account_id", "user_id", "denial_reason"],
  run: ({ agent }, { credit_card_account_id, user_id, denial_reason }) => {
    if (isAnyMissing(credit_card_account_id, user_id, denial_reason)) return missing;
    if (!isIn(denial_reason, denialReasons)) {
      return `Error: Invalid denial_reason. Must be one of: ${denialReasons.join(", ")}`;
    }
    const account = recordAt(agent, "credit_card_accounts", credit_card_account_id);
    if (account === null) return unknownAccount(credit_card_account_id);
    const id = limitRequestId(credit_card_account_id, user_id, 0);
    const record = recordOf({
      request_id: id,
      credit_card_account_id,
      user_id,
      denial_reason,
      decision_date: today,
      status: "DENIED",
    });
    addRecord(agent, "credit_limit_increase_requests", id, record);
    return [
      "Credit limit increase request denied.",
      `  - Account: ${account[0]}`,
      `  - Denial Reason: ${show(denial_reason)}`,
      `  - Date: ${today}`,
      "The customer will receive a notification explaining the denial.",
    ].join("\n");
  },
});

export const creditLimitTools: readonly Method[] = [
  submitLimitIncrease,
  historyTool("get_credit_limit_increase_history_4829", {
    table: "credit_limit_increase_requests",
    parameter: "credit_card_account_id",
    heading: "Credit limit increase history retrieved.",
    subject: "Credit limit increase history for account",
    none: "No credit limit increase requests found for this account.",
  }),
  paymentHistory,
  approveLimitIncrease,
  denyLimitIncrease,
];
