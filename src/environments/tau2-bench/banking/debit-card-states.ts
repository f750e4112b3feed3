// Discoverable tools of the agent for debit cards: activation by the reason of issue, PINs, the list
// of an account's cards, and temporary limits.

import { isOrdered, isTruthy, pythonEquals, pythonMultiply, pythonSubtract } from "../../../python-semantics/index.ts";
import { integerOf } from "../../../python-semantics/number-text.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, type Method } from "../toolkit.ts";
import { ageOf } from "./account-tools.ts";
import { cardsOf, closedAccountOf, findCard, statusOf } from "./debit-card-tools.ts";
import { today } from "./ids.ts";
import {
  getField,
  isAnyMissing,
  isDigits,
  isIn,
  latestFirst,
  lowered,
  show,
  showJson,
  titled,
  toNumberIfAny,
} from "./python.ts";
import { type Entry, recordAt } from "./query.ts";

const sequences = ["0123456789", "9876543210"];

/** The text of why a PIN is refused; `null` if it is not. */
function refusePin(pin: JsonValue): string | null {
  if (!isTruthy(pin) || !isDigits(pin, 4)) return "Error: PIN must be exactly 4 digits.";
  const digits = pin as string;
  if (sequences.some((sequence) => sequence.includes(digits))) {
    return "Error: PIN cannot be sequential (e.g., 1234). Please choose a more secure PIN.";
  }
  if (new Set(digits).size > 1) return null;
  return "Error: PIN cannot be all the same digit (e.g., 1111). Please choose a more secure PIN.";
}

/** Tools for activation, by the reasons of issue that they serve. */
const activations: ReadonlyMap<string, readonly string[]> = new Map([
  ["activate_debit_card_8291", ["new_account", "first_card"]],
  ["activate_debit_card_8292", ["lost", "stolen", "fraud"]],
  ["activate_debit_card_8293", ["expired", "damaged", "upgrade", "bank_reissue"]],
]);

const activationParameters = ["card_id", "last_4_digits", "expiration_date", "cvv", "pin"] as const;

type ActivationArguments = Readonly<Record<(typeof activationParameters)[number], JsonValue>>;

/** The card to activate, or the text of why it is not. */
function cardToActivate(database: Database, tool: string, args: ActivationArguments): Entry | string {
  const { card_id, last_4_digits, expiration_date, cvv, pin } = args;
  if (isAnyMissing(card_id, last_4_digits, expiration_date, cvv, pin)) {
    return "Error: Missing required parameters. Required: card_id, last_4_digits, expiration_date, cvv, pin.";
  }
  const refusal = refusePin(pin);
  if (refusal !== null) return refusal;
  if (!isDigits(cvv, 3)) return "Error: CVV must be exactly 3 digits.";
  if (!isDigits(last_4_digits, 4)) return "Error: Last 4 digits must be exactly 4 digits.";
  const found = findCard(database, card_id);
  if (typeof found === "string") return found;
  const [id, card] = found;
  const reason = getField(card, "issue_reason", "new_account");
  if (!isIn(reason, activations.get(tool)!)) {
    const right = [...activations].find(([, reasons]) => isIn(reason, reasons))?.[0] ?? "unknown";
    return `Error: Wrong activation tool. This card has issue_reason='${show(reason)}'. Please use ${right} instead of ${tool}.`;
  }
  if (card.get("status") === "ACTIVE") return `Error: Debit card '${id}' is already active.`;
  if (card.get("status") !== "PENDING") {
    return `Error: Debit card '${id}' cannot be activated. Current status: ${statusOf(card)}. Only PENDING cards can be activated.`;
  }
  if (card.get("last_4_digits") !== last_4_digits) {
    return "Error: Card verification failed. The last 4 digits do not match our records.";
  }
  const closed = closedAccountOf(database, card);
  if (closed === null) return found;
  return `Error: The linked checking account '${closed}' is no longer open. Card cannot be activated.`;
}

/** A tool for activation: its effect on the account's other active cards, and its answer. */
type Activation = {
  readonly name: string;
  /** Reason of issue of a card that has none. */
  readonly reason: string;
  readonly retire: (card: JsonObject, reason: JsonValue) => void;
  readonly lines: (id: string, reason: JsonValue, retired: readonly string[]) => readonly string[];
};

function deactivate(card: JsonObject, reason: string): void {
  card.set("status", "DEACTIVATED").set("deactivated_date", today).set("deactivation_reason", reason);
}

const isActive = ["Status: ACTIVE", `Activation Date: ${today}`, ""];

const activationTools: readonly Activation[] = [
  {
    name: "activate_debit_card_8291",
    reason: "new_account",
    retire: (card) => deactivate(card, "New card activated"),
    lines: (id, _, retired) => [
      "New Debit Card Activation Successful",
      `Card ID: ${id}`,
      ...isActive,
      "Your card is now ready to use at any ATM or point of sale terminal.",
      "For security, please sign the back of your card.",
      ...(retired.length > 0 ? [`\nNote: Previous card(s) have been deactivated: ${retired.join(", ")}`] : []),
    ],
  },
  {
    name: "activate_debit_card_8292",
    reason: "lost",
    retire: (card, reason) => deactivate(card, `Replacement card activated (${show(reason)})`),
    lines: (id, reason, retired) => [
      "Replacement Debit Card Activation Successful",
      `Card ID: ${id}`,
      `Replacement Reason: ${titled(reason)}`,
      ...isActive,
      "Your replacement card is now ready to use.",
      "",
      "IMPORTANT SECURITY REMINDERS:",
      "- Please review your recent transactions for any unauthorized charges",
      "- Report any suspicious activity immediately",
      ...(reason === "fraud"
        ? ["- Since fraud was suspected, we recommend changing your online banking password"]
        : []),
      ...(retired.length > 0 ? [`\nPrevious card(s) have been deactivated for security: ${retired.join(", ")}`] : []),
    ],
  },
  {
    name: "activate_debit_card_8293",
    reason: "expired",
    retire: (card, reason) =>
      void card
        .set("status", "GRACE_PERIOD")
        .set("grace_period_ends", today)
        .set("deactivation_reason", `Reissued card activated (${show(reason)})`),
    lines: (id, reason, retired) => [
      "Reissued Debit Card Activation Successful",
      `Card ID: ${id}`,
      `Reissue Reason: ${titled(reason)}`,
      ...isActive,
      "Your reissued card is now ready to use.",
      ...(retired.length > 0
        ? [
            `\nNote: Your previous card(s) (${retired.join(", ")}) will remain active for 24 hours as a grace period.`,
            "After 24 hours, the old card(s) will be automatically deactivated.",
          ]
        : []),
      ...(isIn(reason, ["expired", "bank_reissue"])
        ? ["\nReminder: If your card number changed, please update any recurring payments with your new card details."]
        : []),
    ],
  },
];

const activationTool = ({ name, reason: usual, retire, lines }: Activation): Method =>
  defineDiscoverableTool("write", {
    name,
    parameters: activationParameters,
    run: ({ agent }, args) => {
      const found = cardToActivate(agent, name, args);
      if (typeof found === "string") return found;
      const [id, card] = found;
      const reason = getField(card, "issue_reason", usual);
      agent.edit("debit_cards", id).set("status", "ACTIVE").set("activated_date", today);
      const retired: string[] = [];
      for (const [other, record] of cardsOf(agent, getField(card, "account_id"))) {
        if (other === id || record.get("status") !== "ACTIVE") continue;
        retire(agent.edit("debit_cards", other), reason);
        retired.push(other);
      }
      return lines(id, reason, retired).join("\n");
    },
  });

const pinAdvice = [
  "Customer can use the new PIN for ATM withdrawals and point-of-sale transactions.",
  "",
  "Security reminder: Never share your PIN with anyone.",
];

const resetPin = defineDiscoverableTool("write", {
  name: "reset_debit_card_pin_6284",
  parameters: ["card_id", "last_4_digits", "new_pin"],
  run: ({ agent }, { card_id, last_4_digits, new_pin }) => {
    if (isAnyMissing(card_id, last_4_digits, new_pin)) {
      return "Error: Missing required parameters. Required: card_id, last_4_digits, new_pin.";
    }
    if (!isDigits(last_4_digits, 4)) return "Error: Last 4 digits must be exactly 4 digits.";
    const refusal = refusePin(new_pin);
    if (refusal !== null) return refusal;
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (card.get("last_4_digits") !== last_4_digits) {
      return "Error: Card verification failed. The last 4 digits do not match our records.";
    }
    if (card.get("status") !== "ACTIVE") {
      return `Error: Cannot reset PIN. Card status is ${statusOf(card)}. Only ACTIVE cards can have their PIN reset.`;
    }
    agent
      .edit("debit_cards", id)
      .set("pin_last_changed", today)
      .set("pin_locked", false)
      .set("pin_attempts_remaining", 3);
    return [
      "Debit Card PIN Reset Successfully",
      `Card ID: ${id}`,
      `PIN Changed: ${today}`,
      "",
      "The new PIN is effective immediately.",
      "Your card has been unlocked and is ready to use.",
      ...pinAdvice,
    ].join("\n");
  },
});

const changePin = defineDiscoverableTool("write", {
  name: "change_debit_card_pin_6285",
  parameters: ["card_id", "current_pin", "new_pin"],
  run: ({ agent }, { card_id, current_pin, new_pin }) => {
    if (isAnyMissing(card_id, current_pin, new_pin)) {
      return "Error: Missing required parameters. Required: card_id, current_pin, new_pin.";
    }
    if (!isDigits(current_pin, 4)) return "Error: Current PIN must be exactly 4 digits.";
    const refusal = refusePin(new_pin);
    if (refusal !== null) return refusal;
    if (pythonEquals(current_pin, new_pin)) return "Error: New PIN must be different from current PIN.";
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (card.get("status") !== "ACTIVE") {
      return `Error: Cannot change PIN. Card status is ${statusOf(card)}. Only ACTIVE cards can have their PIN changed.`;
    }
    agent.edit("debit_cards", id).set("pin_last_changed", today);
    return [
      "Debit Card PIN Changed Successfully",
      `Card ID: ${id}`,
      `PIN Changed: ${today}`,
      "",
      "The new PIN is effective immediately.",
      ...pinAdvice,
    ].join("\n");
  },
});

const listCards = defineDiscoverableTool("read", {
  name: "get_debit_cards_by_account_id_7823",
  parameters: ["account_id"],
  run: ({ agent }, { account_id }) => {
    if (!isTruthy(account_id)) return "Error: Missing required parameter 'account_id'.";
    const account = recordAt(agent, "accounts", account_id);
    if (account === null) return `Error: Account '${show(account_id)}' not found.`;
    if (!["checking", "business_checking"].includes(lowered(getField(account[1], "class", "")))) {
      return `Error: Account '${account[0]}' is not a checking account. Debit cards are only available for checking accounts.`;
    }
    const cards = cardsOf(agent, account[0]).map(shownCard);
    if (cards.length === 0) return `No debit cards found for account '${account[0]}'.`;
    return showJson(latestFirst(cards, "date_issued"));
  },
});

/** A card with the names that the list uses for two of its fields, which move to the end. */
function shownCard([id, card]: Entry): JsonObject {
  const shown: JsonObject = new Map<string, JsonValue>([["card_id", id], ...card]);
  const rename = (from: string, to: string): boolean => {
    const value = shown.get(from);
    if (value === undefined || shown.has(to)) return false;
    shown.delete(from);
    shown.set(to, value);
    return true;
  };
  rename("last_4_digits", "card_number_last_4");
  if (!rename("issue_date", "date_issued")) rename("created_date", "date_issued");
  return shown;
}

/** Daily limits for withdrawals of cards that have none of their own, by the account's level. */
const withdrawalLimits: ReadonlyMap<string, number> = new Map([
  ["blue account", 500],
  ["green account", 600],
  ["light blue account", 400],
  ["green fee-free account", 500],
  ["evergreen account", 750],
  ["bluest account", 1500],
  ["dark green account", 300],
  ["gold years account", 600],
  ["purple account", 1000],
]);

type Limit = { readonly field: string; readonly title: string; readonly current: JsonValue };

/** The limit that a card has now, or the text of why it cannot be raised. */
function limitOf(card: JsonObject, account: JsonObject, type: string): Limit | string {
  const isWithdrawal = type === "atm";
  const field = isWithdrawal ? "daily_atm_limit" : "daily_purchase_limit";
  const title = isWithdrawal ? "Daily ATM Withdrawal Limit" : "Daily Purchase Limit";
  const current = getField(card, field);
  if (current !== null) return { field, title, current };
  if (!isWithdrawal) {
    return "Error: The card does not have a daily purchase limit configured. This may be a restricted account type where limits are set by account policy and cannot be modified.";
  }
  const level = lowered(getField(account, "level", ""));
  if (level.includes("light green")) {
    return "Error: Light Green Account (teen checking) cards have policy-based limits that cannot be modified. The daily ATM withdrawal limit of $150 is fixed by account policy for safety reasons. The customer may request the parent/guardian to withdraw cash from their own account if needed.";
  }
  const usual = withdrawalLimits.get(level);
  if (usual !== undefined) return { field, title, current: usual };
  return `Error: Could not determine the default ATM limit for account type '${show(getField(account, "level"))}'. Please verify the account type.`;
}

const raiseLimit = defineDiscoverableTool("write", {
  name: "request_temporary_debit_card_limit_increase_8374",
  parameters: ["card_id", "limit_type", "new_limit"],
  run: ({ agent }, { card_id, limit_type, new_limit }) => {
    for (const [name, value] of Object.entries({ card_id, limit_type })) {
      if (!isTruthy(value)) return `Error: Missing required parameter: ${name}.`;
    }
    if (!isIn(limit_type, ["atm", "purchase"])) {
      return `Error: Invalid limit_type '${show(limit_type)}'. Must be 'atm' or 'purchase'.`;
    }
    const type = limit_type as string;
    if (new_limit === null) return "Error: Missing required parameter: new_limit.";
    const asked = toNumberIfAny(new_limit);
    if (asked === null) return `Error: new_limit must be an integer, got '${show(new_limit)}'.`;
    if (!Number.isInteger(asked)) return `Error: new_limit must be an integer, got '${show(new JsonFloat(asked))}'.`;
    const limit = integerOf(asked);
    if (limit <= 0) return "Error: new_limit must be a positive amount.";
    const found = findCard(agent, card_id);
    if (typeof found === "string") return found;
    const [id, card] = found;
    if (card.get("status") !== "ACTIVE") {
      return `Error: Debit card '${id}' is not active. Current status: ${statusOf(card)}. Only ACTIVE cards can have limit increases.`;
    }
    const accountId = getField(card, "account_id");
    const linked = isTruthy(accountId) ? recordAt(agent, "accounts", accountId) : null;
    if (linked === null) return `Error: Could not find linked account for debit card '${id}'.`;
    const [linkedId, account] = linked;
    if (account.get("status") !== "OPEN") {
      return `Error: The linked account '${linkedId}' is not in good standing. Account status: ${statusOf(account)}.`;
    }
    const opened = getField(account, "date_opened");
    const age = isTruthy(opened) ? ageOf(opened) : null;
    if (age !== null && age < 60) {
      return `Error: Account must be at least 60 days old for a temporary limit increase. Account age: ${age} days.`;
    }
    const known = limitOf(card, account, type);
    if (typeof known === "string") return known;
    const { field, title, current } = known;
    const most = wholePart(pythonMultiply(current, new JsonFloat(1.5)));
    if (isOrdered(">", limit, most)) {
      return `Error: Requested limit $${limit} exceeds the maximum allowed temporary increase. Maximum temporary limit is $${most} (150% of current $${show(current)} limit).`;
    }
    if (isOrdered("<=", limit, current)) {
      return `Error: Requested limit $${limit} is not higher than the current limit of $${show(current)}.`;
    }
    agent
      .edit("debit_cards", id)
      .set(field, limit)
      .set(`temporary_${type}_limit_increase`, true)
      .set(`original_${type}_limit`, current)
      .set(`temporary_${type}_limit_expires`, today);
    return [
      `Temporary ${title} Increase Granted Successfully`,
      `Card ID: ${id}`,
      `Previous Limit: $${show(current)}`,
      `New Temporary Limit: $${limit}`,
      `Increase Amount: $${show(pythonSubtract(limit, current))}`,
      "",
      "Important Information:",
      "- This temporary increase expires in 24 hours",
      `- After expiration, the limit will revert to $${show(current)}`,
      "- Only one temporary increase is allowed per 24-hour period",
      "",
      "Note: If the customer is at a third-party (non-Rho-Bank) ATM, that ATM may have its own",
      "per-transaction or daily limits that Rho-Bank cannot override. The customer may need to",
      "use a Rho-Bank ATM or make multiple smaller withdrawals at third-party ATMs.",
    ].join("\n");
  },
});

/** `int(number)`. */
const wholePart = (value: JsonValue): number | bigint => integerOf((value as JsonFloat).value);

export const debitCardStateTools: readonly Method[] = [
  ...activationTools.map(activationTool),
  resetPin,
  changePin,
  listCards,
  raiseLimit,
];
