// Discoverable tools of the agent for debit cards: orders, closing, freezing, alerts and
// recurring payments. Activation, PINs, limits and lists are in `debit-card-states.ts`.

import { isTruthy, pythonEquals } from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, type Method } from "../toolkit.ts";
import { notOneOf } from "./dispute-tools.ts";
import { hashId, today } from "./ids.ts";
import {
  fixedNumber,
  getField,
  isAnyMissing,
  isIn,
  lowered,
  recordOf,
  show,
  titled,
  toNumberIfAny,
  upper,
} from "./python.ts";
import { addRecord, type Entry, recordAt } from "./query.ts";

/** The debit card of an id, or the text for none. */
export function findCard(database: Database, id: JsonValue): Entry | string {
  return recordAt(database, "debit_cards", id) ?? `Error: Debit card '${show(id)}' not found.`;
}

export const statusOf = (card: JsonObject): string => show(getField(card, "status"));

/** The account that a card is linked to, if it is no longer open; `null` otherwise. */
export function closedAccountOf(database: Database, card: JsonObject): string | null {
  const id = getField(card, "account_id");
  const account = isTruthy(id) ? recordAt(database, "accounts", id) : null;
  return account !== null && account[1].get("status") !== "OPEN" ? account[0] : null;
}

export function cardsOf(database: Database, accountId: JsonValue): Entry[] {
  const cards: Entry[] = [];
  for (const entry of database.records("debit_cards")) {
    if (pythonEquals(getField(entry[1], "account_id"), accountId)) cards.push(entry);
  }
  return cards;
}

const deliveries: ReadonlyMap<string, string> = new Map([
  ["STANDARD", "7-10 business days"],
  ["EXPEDITED", "3-5 business days"],
  ["RUSH", "1-2 business days"],
]);
const designs = ["CLASSIC", "PREMIUM", "CUSTOM"];
const stolenReasons = ["lost", "stolen", "fraud", "fraud_suspected"];

/** A fee as `float(value)`: `undefined` if it is not a number, `null` for None. */
const feeOf = (value: JsonValue): number | null | undefined =>
  value === null ? null : (toNumberIfAny(value) ?? undefined);

/** The text of why no card can be ordered for an account with this balance; `null` if one can. */
function refuseOrder(database: Database, [id, account]: Entry, userId: JsonValue, balance: number): string | null {
  if (account.get("class") !== "checking") {
    return `Error: Debit cards can only be ordered for checking accounts. Account '${id}' is a ${show(getField(account, "class"))} account.`;
  }
  if (account.get("status") !== "OPEN") {
    return `Error: Account must be OPEN. Account '${id}' has status: ${statusOf(account)}`;
  }
  if (!pythonEquals(getField(account, "user_id"), userId)) {
    return `Error: Account '${id}' does not belong to user '${show(userId)}'.`;
  }
  if (balance < 25) {
    return `Error: Account must have a minimum balance of $25. Current balance: $${fixedNumber(balance)}`;
  }
  for (const [, order] of database.records("debit_card_orders")) {
    if (order.get("account_id") === id && order.get("status") === "PENDING") {
      return `Error: There is already a pending debit card order for account '${id}'.`;
    }
  }
  if (cardsOf(database, id).some(([, card]) => card.get("status") === "ACTIVE")) {
    return `Error: Account '${id}' already has an active debit card. Maximum 1 active card per checking account.`;
  }
  return null;
}

/** Reason for issuing a card to an account that has these. */
function issueReason(cards: readonly Entry[]): JsonValue {
  const closed = cards.find(([, card]) => card.get("status") === "CLOSED");
  if (closed === undefined || closed[1].size === 0) return cards.length > 0 ? "first_card" : "new_account";
  const reason = getField(closed[1], "closure_reason", "first_card");
  if (!isIn(reason, stolenReasons)) return "first_card";
  return reason === "fraud_suspected" ? "fraud" : reason;
}

/** The first digits of a hash, filled up with zeros. */
const digitsOf = (hash: string, count: number): string => hash.replace(/\D/g, "").slice(0, count).padStart(count, "0");

const orderCard = defineDiscoverableTool("write", {
  name: "order_debit_card_5739",
  parameters: [
    "account_id",
    "user_id",
    "delivery_option",
    "delivery_fee",
    "card_design",
    "design_fee",
    "shipping_address",
    ["excess_replacement_fee", null],
  ],
  run: ({ agent }, args) => {
    const { account_id, user_id, shipping_address } = args;
    const deliveryFee = feeOf(args.delivery_fee);
    if (deliveryFee === undefined) return "Error: delivery_fee must be a number.";
    const designFee = feeOf(args.design_fee);
    if (designFee === undefined) return "Error: design_fee must be a number.";
    const excess = isTruthy(args.excess_replacement_fee) ? toNumberIfAny(args.excess_replacement_fee) : 0;
    const excessFee = excess ?? 0;
    const texts = [account_id, user_id, args.delivery_option, args.card_design, shipping_address];
    if (isAnyMissing(...texts) || deliveryFee === null || designFee === null) {
      return "Error: Missing required parameters. Required: account_id, user_id, delivery_option, delivery_fee, card_design, design_fee, shipping_address.";
    }
    const delivery = upper(args.delivery_option);
    if (!deliveries.has(delivery)) return notOneOf("delivery_option", [...deliveries.keys()]);
    const design = upper(args.card_design);
    if (!designs.includes(design)) return notOneOf("card_design", designs);
    const account = recordAt(agent, "accounts", account_id);
    if (account === null) return `Error: Account '${show(account_id)}' not found.`;
    const [id] = account;
    const balance = holdingsOf(account[1]);
    const refusal = refuseOrder(agent, account, user_id, balance);
    if (refusal !== null) return refusal;
    const total = deliveryFee + designFee + excessFee;
    if (total > 0 && balance < total) {
      return `Error: Insufficient funds for fees. Total fees: $${fixedNumber(total)}. Current balance: $${fixedNumber(balance)}`;
    }
    const expected = deliveries.get(delivery)!;
    const orderId = `dcord_${hashId(`debit_card_order:${id}:${show(user_id)}:${delivery}`, 12)}`;
    const order = recordOf({
      order_id: orderId,
      account_id,
      user_id,
      delivery_option: delivery,
      card_design: design,
      shipping_address,
      delivery_fee: new JsonFloat(deliveryFee),
      design_fee: new JsonFloat(designFee),
      excess_replacement_fee: excess === null ? 0 : new JsonFloat(excess),
      total_fee: new JsonFloat(total),
      order_date: today,
      expected_delivery: expected,
      status: "PENDING",
    });
    if (!addRecord(agent, "debit_card_orders", orderId, order)) {
      return "Error: Failed to create debit card order. Order may already exist.";
    }
    const fees: readonly (readonly [name: string, fee: number, text: string])[] = [
      ["Delivery", deliveryFee, show(new JsonFloat(deliveryFee))],
      ["Design", designFee, show(new JsonFloat(designFee))],
      ["Excess Replacement", excessFee, fixedNumber(excessFee, 0)],
    ];
    const charged = fees.filter(([, fee]) => fee > 0);
    if (total > 0) {
      agent.edit("accounts", id).set("current_holdings", fixedNumber(balance - total));
      const feeId = `btxn_dcfee_${orderId.slice(-8)}`;
      const fee = recordOf({
        transaction_id: feeId,
        account_id,
        date: today,
        description: `DEBIT CARD ORDER FEE - ${charged.map(([name, , text]) => `${name} $${text}`).join(", ")}`,
        amount: new JsonFloat(-total),
        type: "debit_card_fee",
        status: "posted",
      });
      addRecord(agent, "bank_account_transaction_history", feeId, fee);
    }
    const cardId = addCard(agent, { account: id, user: user_id, design });
    return [
      "Debit Card Order Confirmed",
      `Order ID: ${orderId}`,
      `Card ID: ${cardId}`,
      `Linked Account: ${id}`,
      `Delivery Option: ${delivery}`,
      `Card Design: ${design}`,
      `Shipping Address: ${show(shipping_address)}`,
      `Expected Delivery: ${expected}`,
      "",
      "Note: Card will arrive with status PENDING. Customer must call to activate after receiving the card.",
      ...(total > 0
        ? [
            `Total Fees: $${fixedNumber(total)} (${charged.map(([name, , text]) => `${name}: $${text}`).join(", ")}) - CHARGED to account ${id}`,
            `New Account Balance: $${fixedNumber(balance - total)}`,
          ]
        : ["Total Fees: $0 (No additional charges)"]),
    ].join("\n");
  },
});

/** The balance as this tool reads it: 0 for text with a dollar sign. */
function holdingsOf(account: JsonObject): number {
  const text = show(getField(account, "current_holdings", "0")).replaceAll(",", "");
  return toNumberIfAny(text) ?? 0;
}

/** Adds the ordered card, and returns its id. */
function addCard(
  database: Database,
  { account, user, design }: { readonly account: string; readonly user: JsonValue; readonly design: string },
): string {
  const id = `dbc_${hashId(`debit_card:${account}:${show(user)}:${today}`, 12)}`;
  const holder = recordAt(database, "users", user);
  const card = recordOf({
    card_id: id,
    account_id: account,
    user_id: user,
    cardholder_name: holder === null ? "CARDHOLDER" : upper(getField(holder[1], "name", "CARDHOLDER")),
    last_4_digits: digitsOf(hashId(`card_details:${id}:last4`, 8), 4),
    cvv: digitsOf(hashId(`card_details:${id}:cvv`, 6), 3),
    status: "PENDING",
    issue_date: today,
    expiration_date: "11/30/2029",
    card_design: design,
    issue_reason: issueReason(cardsOf(database, account)),
  });
  addRecord(database, "debit_cards", id, card);
  return id;
}

const closeReasons = ["lost", "stolen", "fraud_suspected", "damaged", "no_longer_needed", "account_closing"];

const closeCard = defineDiscoverableTool("write", {
  name: "close_debit_card_4721",
  parameters: ["card_id", "reason"],
  run: ({ agent }, { card_id, reason: given }) => {
    if (isAnyMissing(card_id, given)) return "Error: Missing required parameters. Required: card_id, reason.";
    const reason = lowered(given);
    if (!closeReasons.includes(reason)) return notOneOf("reason", closeReasons);
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    const status = statusOf(card);
    if (!isIn(getField(card, "status"), ["ACTIVE", "PENDING"])) {
      return `Error: Debit card '${id}' cannot be closed. Current status: ${status}. Only ACTIVE or PENDING cards can be closed.`;
    }
    agent.edit("debit_cards", id).set("status", "CLOSED").set("closed_date", today).set("closure_reason", reason);
    const isUnsafe = ["lost", "stolen", "fraud_suspected"].includes(reason);
    return [
      "Debit Card Closed Successfully",
      `Card ID: ${id}`,
      `Previous Status: ${status}`,
      "New Status: CLOSED",
      `Closure Reason: ${titled(reason)}`,
      `Closure Date: ${today}`,
      "",
      ...(isUnsafe
        ? [
            "IMPORTANT: This card has been immediately deactivated for security.",
            "Any pending transactions may still be processed.",
          ]
        : []),
      ...(reason === "fraud_suspected"
        ? [
            "Please advise the customer to review recent transactions and file disputes for any unauthorized charges.",
            "Also recommend changing their online banking password.",
          ]
        : []),
      ...(isUnsafe ? [""] : []),
      "Note: This card cannot be reactivated. If the customer needs a new card, they can order one through the standard ordering process.",
      "Any recurring payments linked to this card will need to be updated with new payment information.",
    ].join("\n");
  },
});

const freezeCard = defineDiscoverableTool("write", {
  name: "freeze_debit_card_3892",
  parameters: ["card_id"],
  run: ({ agent }, { card_id }) => {
    if (!isTruthy(card_id)) return "Error: Missing required parameter: card_id.";
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (card.get("status") === "FROZEN") return `Error: Debit card '${id}' is already frozen.`;
    if (card.get("status") !== "ACTIVE") {
      return `Error: Debit card '${id}' cannot be frozen. Current status: ${statusOf(card)}. Only ACTIVE cards can be frozen.`;
    }
    agent.edit("debit_cards", id).set("status", "FROZEN").set("frozen_date", today);
    return [
      "Debit Card Frozen Successfully",
      `Card ID: ${id}`,
      "Status: FROZEN",
      `Frozen Date: ${today}`,
      "",
      "While frozen:",
      "- All new purchase transactions will be declined",
      "- Recurring payments and subscriptions will be declined",
      "- Pending transactions already authorized may still process",
      "",
      "To unfreeze, the customer can call customer service or use the mobile app.",
      "If the card is confirmed lost or stolen, recommend closing the card permanently instead.",
    ].join("\n");
  },
});

const unfreezeCard = defineDiscoverableTool("write", {
  name: "unfreeze_debit_card_3893",
  parameters: ["card_id"],
  run: ({ agent }, { card_id }) => {
    if (!isTruthy(card_id)) return "Error: Missing required parameter: card_id.";
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (card.get("status") === "ACTIVE") return `Error: Debit card '${id}' is already active.`;
    if (card.get("status") !== "FROZEN") {
      return `Error: Debit card '${id}' cannot be unfrozen. Current status: ${statusOf(card)}. Only FROZEN cards can be unfrozen.`;
    }
    const closed = closedAccountOf(agent, card);
    if (closed !== null) {
      return `Error: The linked checking account '${closed}' is no longer open. Card cannot be unfrozen.`;
    }
    agent.edit("debit_cards", id).set("status", "ACTIVE").set("unfrozen_date", today);
    return [
      "Debit Card Unfrozen Successfully",
      `Card ID: ${id}`,
      "Status: ACTIVE",
      `Unfrozen Date: ${today}`,
      "",
      "The card is now active and ready to use immediately.",
      "All transactions will process normally.",
    ].join("\n");
  },
});

const alertReasons = ["customer_verified", "velocity_clear"];

const clearAlert = defineDiscoverableTool("write", {
  name: "clear_debit_card_fraud_alert_4892",
  parameters: ["card_id", "reason"],
  run: ({ agent }, { card_id, reason }) => {
    if (!isTruthy(card_id)) return "Error: Missing required parameter: card_id.";
    if (!isTruthy(reason)) return "Error: Missing required parameter: reason.";
    if (!isIn(reason, alertReasons)) {
      return `Error: Invalid reason '${show(reason)}'. Must be one of: ${alertReasons.join(", ")}`;
    }
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (reason === "velocity_clear") {
      if (!isTruthy(getField(card, "velocity_blocked", false))) {
        return `Error: Debit card '${id}' does not have an active velocity block.`;
      }
      agent.edit("debit_cards", id).set("velocity_blocked", false).set("velocity_cleared_date", today);
      return [
        "Velocity Block Cleared Successfully",
        `Card ID: ${id}`,
        `Cleared Date: ${today}`,
        "",
        "The card is now unblocked and ready for normal use.",
        "The velocity monitoring will continue - if the same unusual patterns recur,",
        "the card may be blocked again automatically.",
      ].join("\n");
    }
    if (!isTruthy(getField(card, "fraud_alert_active", false))) {
      return `Error: Debit card '${id}' does not have an active fraud alert.`;
    }
    if (card.get("alert_source") === "bank_initiated") {
      return "Error: BANK_INITIATED_ALERT - This fraud alert was initiated by the bank's fraud detection system and cannot be cleared by customer service agents. Please transfer the customer to the security team using transfer_to_human_agents.";
    }
    agent
      .edit("debit_cards", id)
      .set("fraud_alert_active", false)
      .set("alert_source", null)
      .set("fraud_alert_cleared_date", today);
    return [
      "Fraud Alert Cleared Successfully",
      `Card ID: ${id}`,
      `Cleared Date: ${today}`,
      "",
      "The fraud alert has been removed from the card.",
      "All transactions will process normally.",
      "",
      "Remind the customer to review recent transactions and report any unauthorized charges.",
    ].join("\n");
  },
});

const blockRecurring = defineDiscoverableTool("write", {
  name: "set_debit_card_recurring_block_7382",
  parameters: ["card_id", "block_recurring"],
  run: ({ agent }, { card_id, block_recurring }) => {
    if (!isTruthy(card_id)) return "Error: Missing required parameter: card_id";
    const found = recordAt(agent, "debit_cards", card_id);
    if (found === null || found[1].size === 0) return `Error: Debit card '${show(card_id)}' not found.`;
    const [id, card] = found;
    const status = upper(getField(card, "status", ""));
    if (status !== "ACTIVE") {
      return `Error: Cannot update recurring block settings for a card with status '${status}'. Card must be ACTIVE.`;
    }
    agent.edit("debit_cards", id).set("recurring_blocked", block_recurring);
    const effect = isTruthy(block_recurring)
      ? [
          `Recurring payments BLOCKED for debit card ${id}.`,
          "All recurring/subscription charges will be declined.",
          "One-time purchases are not affected.",
        ]
      : [`Recurring payments UNBLOCKED for debit card ${id}.`, "Recurring/subscription charges will now be allowed."];
    return [...effect, "This change takes effect within 24 hours."].join("\n");
  },
});

export const debitCardTools: readonly Method[] = [
  blockRecurring,
  orderCard,
  closeCard,
  freezeCard,
  unfreezeCard,
  clearAlert,
];
