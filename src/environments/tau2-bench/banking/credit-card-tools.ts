// Discoverable tools of the agent for credit card accounts: replacements, closures, credits, flags
// and payments. Credit limits are in `credit-limit-tools.ts`.

import { isTruthy, pythonEquals } from "../../../python-semantics/index.ts";
import type { JsonValue } from "../../../python-semantics/json/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, type Method } from "../toolkit.ts";
import { historyTool, notOneOf } from "./dispute-tools.ts";
import { hashId, joinSeed, today } from "./ids.ts";
import {
  balanceOf,
  fixedNumber,
  fixedText,
  getField,
  isAnyMissing,
  isAtMostZero,
  isIn,
  parseAmount,
  recordOf,
  show,
  showJson,
  titled,
  toNumberIfAny,
} from "./python.ts";
import { addRecord, type Entry, hasRecords, queryBy, recordAt } from "./query.ts";

const missing = "Error: Missing required parameters.";

/** The text for a card account that a query does not find; `null` if it does. */
function missingAccount(database: Database, id: JsonValue): string | null {
  return hasRecords(queryBy(database, "credit_card_accounts", "account_id", id)) ? null : unknownAccount(id);
}

export const unknownAccount = (id: JsonValue): string => `Error: Credit card account '${show(id)}' not found.`;

/** The card account of a user, or the text of what is wrong. */
export function ownAccount(database: Database, id: JsonValue, userId: JsonValue): Entry | string {
  const account = recordAt(database, "credit_card_accounts", id);
  if (account === null) return unknownAccount(id);
  if (pythonEquals(getField(account[1], "user_id"), userId)) return account;
  return `Error: Credit card account '${account[0]}' does not belong to user '${show(userId)}'.`;
}

const replacementReasons = ["fraud_suspected", "lost", "stolen", "damaged", "expired", "other"];

const orderReplacement = defineDiscoverableTool("write", {
  name: "order_replacement_credit_card_7291",
  parameters: ["credit_card_account_id", "user_id", "shipping_address", "reason", ["expedited_shipping", false]],
  run: ({ agent }, { credit_card_account_id, user_id, shipping_address, reason, expedited_shipping }) => {
    if (isAnyMissing(credit_card_account_id, user_id, shipping_address, reason)) {
      return "Error: Missing required parameters (credit_card_account_id, user_id, shipping_address, reason).";
    }
    if (!isIn(reason, replacementReasons)) return notOneOf("reason", replacementReasons);
    const unknown = missingAccount(agent, credit_card_account_id);
    if (unknown !== null) return unknown;
    const id = `ccord_${hashId(`credit_card_order:${show(credit_card_account_id)}:${show(user_id)}:${show(reason)}`, 12)}`;
    const record = recordOf({
      order_id: id,
      credit_card_account_id,
      user_id,
      shipping_address,
      reason,
      expedited_shipping,
      order_date: today,
      status: "ORDERED",
      old_card_cancelled: true,
    });
    if (!addRecord(agent, "credit_card_orders", id, record)) {
      return "Error: Order may have already been placed for this card replacement.";
    }
    const account = recordAt(agent, "credit_card_accounts", credit_card_account_id);
    if (account !== null) {
      agent.edit("credit_card_accounts", account[0]).set("status", "CLOSED").set("closed_date", today);
    }
    const isExpedited = isTruthy(expedited_shipping);
    return [
      `Order ID: ${id}`,
      `Card Account: ${show(credit_card_account_id)}`,
      `Reason: ${titled(reason)}`,
      `Shipping Address: ${show(shipping_address)}`,
      `Shipping Method: ${isExpedited ? "Expedited" : "Standard"}`,
      `Expected Delivery: ${isExpedited ? "2-3 business days" : "7-10 business days"}`,
      "",
      "The old card has been cancelled for security. The new card will have the same account number but a new card number and CVV.",
    ].join("\n");
  },
});

const closureReasons = [
  "annual_fee",
  "not_using_card",
  "found_better_card",
  "unhappy_with_rewards",
  "simplifying_finances",
  "negative_experience",
  "other",
];

const logClosureReason = defineDiscoverableTool("write", {
  name: "log_credit_card_closure_reason_4521",
  parameters: ["credit_card_account_id", "user_id", "closure_reason"],
  run: ({ agent }, { credit_card_account_id, user_id, closure_reason }) => {
    if (isAnyMissing(credit_card_account_id, user_id, closure_reason)) return missing;
    if (!isIn(closure_reason, closureReasons)) return notOneOf("closure_reason", closureReasons);
    const id = `clsr_${hashId(`closure_reason:${show(credit_card_account_id)}:${show(user_id)}`, 12)}`;
    const record = recordOf({
      record_id: id,
      credit_card_account_id,
      user_id,
      closure_reason,
      logged_at: today,
      status: "LOGGED",
    });
    addRecord(agent, "credit_card_closure_reasons", id, record);
    return (
      "Closure reason logged successfully.\n\nExecuted: log_credit_card_closure_reason_4521\n" +
      `Arguments: ${showJson(recordOf({ credit_card_account_id, user_id, closure_reason }))}\n` +
      `Closure reason '${show(closure_reason)}' logged for account ${show(credit_card_account_id)}.`
    );
  },
});

const creditReasons = [
  "goodwill_adjustment",
  "promotional_credit",
  "annual_fee_reversal",
  "late_fee_reversal",
  "interest_charge_reversal",
  "dispute_resolution",
  "price_match",
  "retention_offer",
  "error_correction",
  "other",
];

/** The id of a card transaction; raises for an amount that is not a number, and for other parts that are not strings. */
export function transactionId(
  [user, card, merchant]: readonly [JsonValue, JsonValue, JsonValue],
  amount: JsonValue,
  category: JsonValue,
): string {
  const shown = fixedText(amount);
  return `txn_${hashId(joinSeed(["transaction", user, card, merchant, shown, category]), 12)}`;
}

const applyStatementCredit = defineDiscoverableTool("write", {
  name: "apply_statement_credit_8472",
  parameters: ["user_id", "credit_card_account_id", "amount", "reason"],
  run: ({ agent }, { user_id, credit_card_account_id, amount, reason }) => {
    if (isAnyMissing(user_id, credit_card_account_id) || amount === null || !isTruthy(reason)) {
      return "Error: Missing required parameters (user_id, credit_card_account_id, amount, reason).";
    }
    if (isAtMostZero(amount)) return "Error: Credit amount must be positive.";
    if (!isIn(reason, creditReasons)) return notOneOf("reason", creditReasons);
    const unknown = missingAccount(agent, credit_card_account_id);
    if (unknown !== null) return unknown;
    const id = transactionId([user_id, "STATEMENT_CREDIT", reason], amount, "Statement Credit");
    const record = recordOf({
      transaction_id: id,
      user_id,
      credit_card_account_id,
      credit_card_type: "N/A",
      merchant_name: "Rho-Bank Statement Credit",
      transaction_amount: `-$${fixedText(amount)}`,
      transaction_date: today,
      category: "Statement Credit",
      status: "COMPLETED",
      rewards_earned: "0 points",
      credit_reason: reason,
    });
    if (!addRecord(agent, "credit_card_transaction_history", id, record)) {
      return `Error: Failed to apply statement credit. Transaction ID '${id}' may already exist.`;
    }
    return [
      "Statement credit applied successfully.",
      "",
      "Executed: apply_statement_credit_8472",
      `  - Transaction ID: ${id}`,
      `  - User ID: ${show(user_id)}`,
      `  - Account: ${show(credit_card_account_id)}`,
      `  - Credit Amount: $${fixedText(amount)}`,
      `  - Reason: ${titled(reason)}`,
      `  - Date: ${today}`,
    ].join("\n");
  },
});

const flagTypes = ["annual_fee_waived", "promotional_apr", "rewards_bonus", "other"];
const flagReasons = ["retention_offer", "loyalty_benefit", "promotional", "error_correction", "other"];

const applyFlag = defineDiscoverableTool("write", {
  name: "apply_credit_card_account_flag_6147",
  parameters: ["credit_card_account_id", "user_id", "flag_type", "expiration_date", "reason"],
  run: ({ agent }, { credit_card_account_id, user_id, flag_type, expiration_date, reason }) => {
    if (isAnyMissing(credit_card_account_id, user_id, flag_type, expiration_date, reason)) {
      return "Error: Missing required parameters (credit_card_account_id, user_id, flag_type, expiration_date, reason).";
    }
    if (!isIn(flag_type, flagTypes)) return notOneOf("flag_type", flagTypes);
    if (!isIn(reason, flagReasons)) return notOneOf("reason", flagReasons);
    const unknown = missingAccount(agent, credit_card_account_id);
    if (unknown !== null) return unknown;
    const seed = `account_flag:${show(credit_card_account_id)}:${show(flag_type)}:${show(expiration_date)}`;
    const id = `ccflag_${hashId(seed, 12)}`;
    const record = recordOf({
      flag_id: id,
      credit_card_account_id,
      user_id,
      flag_type,
      effective_date: today,
      expiration_date,
      reason,
      applied_at: today,
      status: "ACTIVE",
    });
    if (!addRecord(agent, "credit_card_account_flags", id, record)) {
      return `Error: Failed to apply account flag. Flag ID '${id}' may already exist.`;
    }
    return [
      "Account flag applied successfully!",
      `  - Flag ID: ${id}`,
      `  - Account: ${show(credit_card_account_id)}`,
      `  - User ID: ${show(user_id)}`,
      `  - Flag Type: ${titled(flag_type)}`,
      `  - Effective Date: ${today}`,
      `  - Expiration Date: ${show(expiration_date)}`,
      `  - Reason: ${titled(reason)}`,
    ].join("\n");
  },
});

const closeAccount = defineDiscoverableTool("write", {
  name: "close_credit_card_account_7834",
  parameters: ["credit_card_account_id", "user_id"],
  run: ({ agent }, { credit_card_account_id, user_id }) => {
    if (isAnyMissing(credit_card_account_id, user_id)) {
      return "Error: Missing required parameters (credit_card_account_id, user_id).";
    }
    const unknown = missingAccount(agent, credit_card_account_id);
    if (unknown !== null) return unknown;
    const account = recordAt(agent, "credit_card_accounts", credit_card_account_id);
    if (account === null) return `Error: Failed to close credit card account '${show(credit_card_account_id)}'.`;
    agent
      .edit("credit_card_accounts", account[0])
      .set("status", "CLOSED")
      .set("closed_date", today)
      .set("closed_by", user_id);
    return (
      "Credit card account closed successfully.\n\nExecuted: close_credit_card_account_7834\n" +
      `Arguments: ${showJson(recordOf({ credit_card_account_id, user_id }))}\n` +
      `Account ${account[0]} has been closed.`
    );
  },
});

const payFromChecking = defineDiscoverableTool("write", {
  name: "pay_credit_card_from_checking_9182",
  parameters: ["user_id", "checking_account_id", "credit_card_account_id", "amount"],
  run: ({ agent }, { user_id, checking_account_id, credit_card_account_id, amount: given }) => {
    if (isAnyMissing(user_id, checking_account_id, credit_card_account_id) || given === null) {
      return "Error: Missing required parameters (user_id, checking_account_id, credit_card_account_id, amount).";
    }
    const amount = toNumberIfAny(given);
    if (amount === null) return "Error: Invalid payment amount. Must be a positive number.";
    if (amount <= 0) return "Error: Payment amount must be a positive number.";
    const checking = recordAt(agent, "accounts", checking_account_id);
    if (checking === null) return `Error: Checking account '${show(checking_account_id)}' not found.`;
    const [checkingId, account] = checking;
    if (!pythonEquals(getField(account, "user_id"), user_id)) {
      return `Error: Checking account '${checkingId}' does not belong to user '${show(user_id)}'.`;
    }
    if (account.get("class") !== "checking") return `Error: Account '${checkingId}' is not a checking account.`;
    const balance = balanceOf(account);
    if (amount > balance) {
      return `Error: Insufficient funds in checking account. Available balance: $${fixedNumber(balance)}, requested payment: $${fixedNumber(amount)}.`;
    }
    const card = ownAccount(agent, credit_card_account_id, user_id);
    if (typeof card === "string") return card;
    const owed = parseAmount(getField(card[1], "current_balance", "$0.00"));
    if (amount > owed) {
      return `Error: Payment amount ($${fixedNumber(amount)}) exceeds credit card balance ($${fixedNumber(owed)}). Please specify an amount up to the outstanding balance.`;
    }
    const [left, stillOwed] = [fixedNumber(balance - amount), fixedNumber(owed - amount)];
    agent.edit("accounts", checkingId).set("current_holdings", left);
    agent.edit("credit_card_accounts", card[0]).set("current_balance", `$${stillOwed}`);
    return [
      "Payment processed successfully!",
      `  - Payment Amount: $${fixedNumber(amount)}`,
      `  - From Checking Account: ${checkingId}`,
      `  - To Credit Card Account: ${card[0]}`,
      `  - New Checking Balance: $${left}`,
      `  - New Credit Card Balance: $${stillOwed}`,
      "The payment has been applied immediately.",
    ].join("\n");
  },
});

export const creditCardTools: readonly Method[] = [
  orderReplacement,
  historyTool("get_pending_replacement_orders_5765", {
    table: "credit_card_orders",
    parameter: "credit_card_account_id",
    heading: "Pending replacement orders check completed.",
    subject: "Replacement orders for credit card account",
    none: "No pending replacement orders found for this credit card account.",
  }),
  logClosureReason,
  historyTool("get_closure_reason_history_8293", {
    table: "credit_card_closure_reasons",
    parameter: "credit_card_account_id",
    heading: "Closure reason history retrieved successfully.",
    subject: "Closure reason history for credit card account",
    none: "No closure reason records found for this credit card account.",
  }),
  applyStatementCredit,
  applyFlag,
  closeAccount,
  payFromChecking,
];
