// The tools of the bank's customer: applications, purchases, referrals, and the tools that the agent
// gives away.

import { isTruthy, pythonMultiply, typeError, pythonTypeName } from "../../../python-semantics/index.ts";
import { integerOf } from "../../../python-semantics/number-text.ts";
import {
  dumpJson,
  JsonFloat,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
} from "../../../python-semantics/json/index.ts";
import { asKey, iterate } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, defineTool, type Method, type Toolkit } from "../toolkit.ts";
import { callDiscoverable, discoverableTool, readArguments, unlessTypeError } from "./agent-tools.ts";
import { transactionId } from "./credit-card-tools.ts";
import { disputeId } from "./dispute-tools.ts";
import { hashId, joinSeed, today } from "./ids.ts";
import {
  balanceOf,
  fixedNumber,
  fixedText,
  getField,
  isIn,
  recordOf,
  show,
  showJson,
  showList,
  toNumberIfAny,
} from "./python.ts";
import { addRecord, hasRecords, queryAll, queryBy, recordAt } from "./query.ts";

type Run<Name extends string> = (database: Database, args: Readonly<Record<Name, JsonValue>>, shown: string) => string;

/**
 * A tool that works only after the agent gave it away, and whose calls are recorded. `run` gets the
 * arguments as JSON, too.
 */
function givenTool<const Name extends string>(
  kind: "read" | "write",
  { name, parameters, run }: { readonly name: string; readonly parameters: readonly Name[]; readonly run: Run<Name> },
): Method {
  return defineDiscoverableTool(kind, {
    name,
    parameters,
    run: ({ user }, args) => {
      if (queryBy(user, "user_discoverable_tools", "tool_name", name).includes("No records found")) {
        return (
          `Error: Tool '${name}' has not been given to you by the agent. ` +
          "The agent must first use `give_discoverable_user_tool` to give this tool to you."
        );
      }
      const given: JsonObject = new Map(parameters.map((parameter) => [parameter, args[parameter]]));
      const seed = dumpJson(given, { ensureAscii: true, sortKeys: true });
      const record = recordOf({ tool_name: name, arguments: given, called_at: today, status: "CALLED" });
      addRecord(user, "user_discoverable_tool_calls", hashId(`user_discoverable_tool_call:${name}:${seed}`), record);
      return run(user, args, `Executed: ${name}\nArguments: ${showJson(given)}`);
    },
  });
}

const submitCashBackDispute = givenTool("write", {
  name: "submit_cash_back_dispute_0589",
  parameters: ["user_id", "transaction_id"],
  run: (database, { user_id, transaction_id }, call) => {
    const id = disputeId(user_id, transaction_id);
    const settings = database.read("task_config", "dispute_settings");
    const isResolved = settings !== undefined && isTruthy(getField(settings, "auto_resolve_disputes", false));
    const record = recordOf({ dispute_id: id, user_id, transaction_id, submitted_at: today, status: "SUBMITTED" });
    if (isResolved) record.set("status", "RESOLVED").set("resolution", "APPROVED");
    const outcome = isResolved
      ? "Status: RESOLVED - The dispute has been reviewed and approved. The transaction rewards need to be updated."
      : "Status: SUBMITTED - Your dispute has been queued for review.";
    const isNew = addRecord(database, "cash_back_disputes", id, record);
    return (
      `Cash back dispute submitted successfully. Your case has been queued for review.\n\n${call}\n` +
      (isNew ? `Dispute ID: ${id}\n${outcome}` : "Note: Dispute may have already been submitted for this transaction.")
    );
  },
});

const getReferralLink = givenTool("write", {
  name: "get_referral_link",
  parameters: ["user_id", "card_name"],
  run: (database, { user_id, card_name }, call) => {
    const id = hashId(`referral_link:${show(user_id)}:${show(card_name)}`);
    const record = referral(id, user_id, card_name);
    const isNew = addRecord(database, "referrals", id, record);
    return (
      `Referral link generated successfully. Share this link with the person you want to refer.\n\n${call}\n` +
      (isNew
        ? `Referral ID: ${id}\nReferral link: https://rhobank.com/refer/${id}`
        : "Note: A referral link for this card may have already been generated.")
    );
  },
});

const referral = (id: string, referrer: JsonValue, type: JsonValue): JsonObject =>
  recordOf({
    referral_id: id,
    referrer_id: referrer,
    referred_account_type: type,
    referral_status: "NO_PROGRESS",
    date: today,
  });

const getLastDigits = givenTool("read", {
  name: "get_card_last_4_digits",
  parameters: ["credit_card_account_id"],
  run: (database, { credit_card_account_id: id }, call) => {
    if (!hasRecords(queryBy(database, "credit_card_accounts", "account_id", id))) {
      return `Error: Credit card account '${show(id)}' not found.`;
    }
    const digits = hashId(`card_last4:${show(id)}`, 64)
      .replace(/\D/g, "")
      .slice(0, 4)
      .padEnd(4, "0");
    return `Card information retrieved successfully.\n\n${call}\nLast 4 digits of card: ${digits}`;
  },
});

const depositCheck = givenTool("write", {
  name: "deposit_check_3847",
  parameters: ["account_id", "check_amount"],
  run: (database, { account_id, check_amount }, call) => {
    const amount = toNumberIfAny(check_amount);
    if (amount === null) return `Error: Invalid check amount '${show(check_amount)}'. Must be a number.`;
    if (amount <= 0) return "Error: Check amount must be positive.";
    const account = recordAt(database, "accounts", account_id);
    if (account === null) return `Error: Account '${show(account_id)}' not found.`;
    const [id, record] = account;
    if (!isIn(getField(record, "status"), ["ACTIVE", "OPEN"])) return `Error: Account '${id}' is not active.`;
    const before = balanceOf(record);
    const after = `$${fixedNumber(before + amount)}`;
    database.edit("accounts", id).set("current_holdings", after);
    return [
      `Check deposited successfully. Funds will be available according to your account's deposit policy.\n\n${call}`,
      "Check deposit processed!",
      `  - Account: ${id}`,
      `  - Check Amount: $${fixedNumber(amount)}`,
      `  - Previous Balance: $${fixedNumber(before)}`,
      `  - New Balance: ${after}`,
    ].join("\n");
  },
});

const givenTools = [submitCashBackDispute, getReferralLink, getLastDigits, depositCheck];

const cardTypes = [
  "Bronze Rewards Card",
  "Business Bronze Rewards Card",
  "Business Gold Rewards Card",
  "Business Platinum Rewards Card",
  "Business Silver Rewards Card",
  "Crypto-Cash Back",
  "Diamond Elite Card",
  "EcoCard",
  "Gold Rewards Card",
  "Green Rewards Card",
  "Platinum Rewards Card",
  "Silver Rewards Card",
  "Silver Zoom Card",
];

/** Rewards in percent of a purchase, by card and category; the others are the "default". */
const rewards: ReadonlyMap<string, Readonly<Record<string, number>>> = new Map<string, Record<string, number>>([
  ["Bronze Rewards Card", { default: 1 }],
  ["Silver Rewards Card", { Travel: 4, Software: 4, default: 1 }],
  ["Gold Rewards Card", { default: 2.5 }],
  ["Platinum Rewards Card", { default: 10 }],
  ["Business Bronze Rewards Card", { default: 1 }],
  ["Business Silver Rewards Card", { Travel: 10, Software: 10, default: 1 }],
  ["Green Rewards Card", { Sustainable: 3, default: 1 }],
  ["Business Gold Rewards Card", { Operations: 2.5, default: 1 }],
  ["Business Platinum Rewards Card", { Travel: 4, Software: 4, Media: 4, default: 1.5 }],
  ["Silver Zoom Card", { Transportation: 3, default: 1 }],
  ["Diamond Elite Card", { default: 5 }],
  ["EcoCard", { Green: 5, default: 1 }],
  ["Crypto-Cash Back", { default: 2 }],
]);

const applyForCard = defineTool("write", {
  name: "apply_for_credit_card",
  parameters: ["card_type", "customer_name", "annual_income", ["rho_bank_subscription", false]],
  run: ({ user }, { card_type, customer_name, annual_income, rho_bank_subscription }) => {
    if (!isIn(card_type, cardTypes)) {
      return `Error: Invalid card_type '${show(card_type)}'. Must be one of: ${showList(cardTypes)}`;
    }
    const number = toNumberIfAny(annual_income);
    if (number === null) return "Error: Invalid annual_income. Must be a number.";
    const income = new JsonFloat(number);
    const facts = [card_type, customer_name, income, rho_bank_subscription].map(show).join(":");
    const id = hashId(`credit_card:${facts}`);
    const record = recordOf({
      application_id: id,
      card_type,
      customer_name,
      annual_income: income,
      rho_bank_subscription,
      status: "PENDING",
      date: today,
    });
    if (!addRecord(user, "credit_card_applications", id, record)) {
      return `Failed to submit application: Record ID '${id}' may already exist.`;
    }
    return (
      "Credit card application submitted:\nYour application has been successfully submitted. " +
      "You will receive a decision within 5-7 business days via email."
    );
  },
});

const submitReferral = defineTool("write", {
  name: "submit_referral",
  parameters: ["user_id", "account_type"],
  run: ({ user }, { user_id, account_type }) => {
    const id = hashId(joinSeed(["referral", user_id, account_type]));
    if (!addRecord(user, "referrals", id, referral(id, user_id, account_type))) {
      return `Failed to submit referral: Record ID '${id}' may already exist.`;
    }
    return [
      "Referral request submitted successfully!",
      `  - Referral ID: ${id}`,
      `  - Referrer ID: ${show(user_id)}`,
      `  - Account Type: ${show(account_type)}`,
      "  - Status: NO_PROGRESS",
      `  - Date: ${today}`,
      "",
      "Share your referral ID with the person you're referring. They will need to use this when applying for their account.",
    ].join("\n");
  },
});

const requestTransfer = defineTool("write", {
  name: "request_human_agent_transfer",
  parameters: [],
  run: ({ user }) => {
    const requests = queryAll(user, "human_transfer_requests");
    const count = hasRecords(requests) ? requests.split("request_id").length : 1;
    const id = `transfer_request_${count}`;
    const record = recordOf({ request_id: id, request_number: count, requested_at: today, status: "PENDING" });
    addRecord(user, "human_transfer_requests", id, record);
    return `Transfer request #${count} submitted.\nThe agent will process your request.`;
  },
});

const submitTransaction = defineTool("write", {
  name: "submit_transaction",
  parameters: ["user_id", "credit_card_type", "merchant_name", "amount", "category"],
  run: ({ user }, { user_id, credit_card_type, merchant_name, amount, category }) => {
    const card = asKey(credit_card_type);
    const rates = card === null ? undefined : rewards.get(card);
    if (rates === undefined) {
      return `Error: Unknown credit card type '${show(credit_card_type)}'. Available types: ${showList([...rewards.keys()])}`;
    }
    const id = transactionId([user_id, credit_card_type, merchant_name], amount, category);
    const rate = new JsonFloat(
      Object.hasOwn(rates, category as string) ? rates[category as string]! : rates["default"]!,
    );
    const points = integerOf((pythonMultiply(amount, rate) as JsonFloat).value);
    const record = recordOf({
      transaction_id: id,
      user_id,
      credit_card_type,
      merchant_name,
      transaction_amount: `$${fixedText(amount)}`,
      transaction_date: today,
      category,
      status: "COMPLETED",
      rewards_earned: `${points} points`,
    });
    if (!addRecord(user, "credit_card_transaction_history", id, record)) {
      return `Failed to submit transaction: Record ID '${id}' may already exist.`;
    }
    return [
      "Transaction submitted successfully!",
      `  - Transaction ID: ${id}`,
      `  - User ID: ${show(user_id)}`,
      `  - Card Type: ${show(credit_card_type)}`,
      `  - Merchant: ${show(merchant_name)}`,
      `  - Amount: $${fixedText(amount)}`,
      `  - Category: ${show(category)}`,
      `  - Date: ${today}`,
      `  - Rewards Earned: ${points} points (${show(rate)}% cashback rate)`,
      "",
    ].join("\n");
  },
});

/** The wrapper that calls a tool given away by the agent. */
const callGivenTool = (toolkit: () => Toolkit): Method =>
  defineTool("write", {
    name: "call_discoverable_user_tool",
    parameters: ["discoverable_tool_name", ["arguments", "{}"]],
    run: (world, { discoverable_tool_name: name, arguments: written }) => {
      const method = discoverableTool(toolkit(), name);
      if (method === null) return `Error: Unknown discoverable tool '${show(name)}'.`;
      const given = readArguments(written);
      if (given instanceof JsonSyntaxError) return `Error: Invalid JSON in arguments: ${given.pythonMessage}`;
      for (const parameter of method.parameters as readonly string[]) {
        if (!hasKey(given, parameter)) return `Error: Missing required parameter: ${parameter}`;
      }
      const unknown = iterate(given).find((key) => !method.parameters.some((one) => one === asKey(key)));
      if (unknown !== undefined) return `Error: Unexpected parameter: ${show(unknown)}`;
      return unlessTypeError(
        () => callDiscoverable(toolkit(), method, world, given),
        (message) => `Error: Invalid arguments for tool '${method.name}': ${message}`,
      );
    },
  });

/** `key in value`. */
function hasKey(value: JsonValue, key: string): boolean {
  if (typeof value === "string" || Array.isArray(value)) return value.includes(key);
  if (value instanceof Map) return value.has(key);
  throw typeError(`argument of type '${pythonTypeName(value)}' is not iterable`);
}

/** All methods of the customer's side; `toolkit` is the one that they become part of. */
export const userMethods = (toolkit: () => Toolkit): readonly Method[] => [
  applyForCard,
  submitReferral,
  callGivenTool(toolkit),
  defineTool("read", {
    name: "list_discoverable_user_tools",
    parameters: [],
    run: ({ user }) => `Tools given to you by the agent:\n${queryAll(user, "user_discoverable_tools")}`,
  }),
  requestTransfer,
  submitTransaction,
  ...givenTools,
];
