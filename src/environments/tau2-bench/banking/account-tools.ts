// Discoverable tools of the agent for bank accounts: opening, closing, transfers, credits and lists.

import { isTruthy, pythonEquals, pythonTypeName, roundFloat, typeError } from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { defineDiscoverableTool, type Method } from "../toolkit.ts";
import { notOneOf } from "./dispute-tools.ts";
import { daysSince, hashId, parseDate, parseDateTime, today } from "./ids.ts";
import {
  balanceOf,
  fixedNumber,
  getField,
  isAnyMissing,
  isIn,
  lowered,
  recordOf,
  show,
  toNumberIfAny,
} from "./python.ts";
import { addRecord, type Entry, hasRecords, queryBy, recordAt, showEntries } from "./query.ts";

const openStatuses = ["OPEN", "ACTIVE"];
const accountTypes = ["checking", "savings", "business_checking", "business_savings"];
const notEligible = "Error: Account eligibility requirements not met.";

/** Days since an account was opened; `null` for a date that `strptime` refuses. */
export function ageOf(written: JsonValue): number | null {
  if (typeof written === "string") return daysSince(written);
  throw typeError(`strptime() argument 1 must be str, not ${pythonTypeName(written)}`);
}

const isOpen = (account: JsonObject): boolean => isIn(getField(account, "status", ""), openStatuses);

/** The type of an account, or else its class. */
const typeOf = (account: JsonObject): JsonValue => getField(account, "account_type", getField(account, "class", ""));

/** True if one of the accounts is open, of one of the types, and at least so many days old. */
function hasAccount(accounts: readonly JsonObject[], types: readonly string[], days: number): boolean {
  return accounts.some(
    (account) =>
      isIn(typeOf(account), types) &&
      isOpen(account) &&
      (days === 0 || (ageOf(getField(account, "date_opened", "")) ?? 0) >= days),
  );
}

const personalChecking = ["checking", "personal_checking"];

/** True if a user with these accounts may open one of the type. */
function isEligible(type: string, accounts: readonly JsonObject[]): boolean {
  if (type === "savings") return hasAccount(accounts, personalChecking, 14);
  if (type === "business_checking") {
    return accounts.every((account) => account.get("status") !== "CLOSED") && hasAccount(accounts, personalChecking, 0);
  }
  if (type !== "business_savings") return true;
  return accounts.every((account) => !(balanceOf(account) < 0)) && hasAccount(accounts, ["business_checking"], 30);
}

const openAccount = defineDiscoverableTool("write", {
  name: "open_bank_account_4821",
  parameters: ["user_id", "account_type", "account_class"],
  run: ({ agent }, { user_id, account_type, account_class }) => {
    if (isAnyMissing(user_id, account_type, account_class)) return "Error: Missing required parameters.";
    if (!isIn(account_type, accountTypes)) return notOneOf("account_type", accountTypes);
    const own: JsonObject[] = [];
    for (const [, account] of agent.records("accounts")) {
      if (pythonEquals(getField(account, "user_id"), user_id)) own.push(account);
    }
    if (!isEligible(account_type as string, own)) return notEligible;
    const id = hashId(`account:${show(user_id)}:${show(account_type)}:${show(account_class)}`);
    const record = recordOf({
      account_id: id,
      user_id,
      account_type,
      account_class,
      current_holdings: "0.00",
      status: "OPEN",
      date_opened: today,
    });
    if (!addRecord(agent, "accounts", id, record)) {
      return `Failed to open account: Account ID '${id}' may already exist.`;
    }
    return [
      "Bank account opened successfully!",
      `  - Account ID: ${id}`,
      `  - User ID: ${show(user_id)}`,
      `  - Account Type: ${show(account_type)}`,
      `  - Account Class: ${show(account_class)}`,
      "  - Status: OPEN",
      "  - Initial Balance: $0.00",
      `  - Date Opened: ${today}`,
    ].join("\n");
  },
});

type EarlyClosure = readonly [fee: number, days: number];

/** Fees for closing a young account, by its class and level. */
const earlyClosures: Readonly<Record<string, ReadonlyMap<string, EarlyClosure>>> = {
  checking: new Map<string, EarlyClosure>([
    ["Light Blue Account", [15, 30]],
    ["Light Green Account", [15, 30]],
    ["Green Fee-Free Account", [15, 30]],
    ["Blue Account", [25, 60]],
    ["Green Account", [25, 60]],
    ["Evergreen Account", [50, 90]],
    ["Bluest Account", [100, 180]],
  ]),
  savings: new Map<string, EarlyClosure>([
    ["Bronze Account", [20, 60]],
    ["Silver Account", [35, 90]],
    ["Silver Plus Account", [35, 90]],
    ["Gold Account", [75, 180]],
    ["Gold Plus Account", [75, 180]],
    ["Gold Years Account", [75, 180]],
    ["Platinum Account", [150, 270]],
    ["Platinum Plus Account", [150, 270]],
    ["Diamond Elite Account", [150, 270]],
  ]),
};

/** The fee for closing the account now; 0 if there is none. */
function earlyClosureFee(account: JsonObject): number {
  const level = asKey(getField(account, "level", ""));
  const opened = getField(account, "date_opened", "");
  const fees = account.get("class") === "checking" ? "checking" : account.get("class") === "savings" ? "savings" : "";
  const closure = level === null ? undefined : earlyClosures[fees]?.get(level);
  if (closure === undefined || !isTruthy(opened)) return 0;
  const age = ageOf(opened);
  return age !== null && age < closure[1] ? closure[0] : 0;
}

const closeAccount = defineDiscoverableTool("write", {
  name: "close_bank_account_7392",
  parameters: ["account_id", ["reason", "Customer requested closure"], ["waive_early_closure_fee", false]],
  run: ({ agent }, { account_id, reason, waive_early_closure_fee }) => {
    if (!isTruthy(account_id)) return "Error: Missing required parameter (account_id).";
    const found = recordAt(agent, "accounts", account_id);
    if (found === null) return `Error: Account '${show(account_id)}' not found.`;
    const [id, account] = found;
    if (account.get("status") === "CLOSED") return `Error: Account '${id}' is already closed.`;
    const balance = balanceOf(account);
    const fee = isTruthy(waive_early_closure_fee) ? 0 : earlyClosureFee(account);
    if (fee > 0 && balance < fee) return "Error: Account unable to be closed.";
    if (balance - fee !== 0) {
      return `Error: Account balance must be $0.00 before closing. Current balance: $${fixedNumber(balance)}`;
    }
    const closed = agent
      .edit("accounts", id)
      .set("status", "CLOSED")
      .set("date_closed", today)
      .set("closure_reason", reason)
      .set("early_closure_fee_waived", waive_early_closure_fee);
    return [
      "Bank account closed successfully!",
      `  - Account ID: ${id}`,
      `  - Account Type: ${show(getField(closed, "account_type", "N/A"))}`,
      `  - Account Class: ${show(getField(closed, "account_class", "N/A"))}`,
      "  - Status: CLOSED",
      `  - Date Closed: ${today}`,
      `  - Reason: ${show(reason)}`,
      `  - Early Closure Fee Waived: ${isTruthy(waive_early_closure_fee) ? "Yes" : "No"}`,
    ].join("\n");
  },
});

const allAccounts = defineDiscoverableTool("read", {
  name: "get_all_user_accounts_by_user_id_3847",
  parameters: ["user_id"],
  run: ({ agent }, { user_id }) => {
    if (!isTruthy(user_id)) return "Error: Missing required parameter: user_id";
    const accounts = queryBy(agent, "accounts", "user_id", user_id);
    const cards = queryBy(agent, "credit_card_accounts", "user_id", user_id);
    return [
      "User accounts retrieved successfully.",
      "",
      "Executed: get_all_user_accounts_by_user_id_3847",
      `Accounts for user ${show(user_id)}:`,
      "",
      "Bank Accounts:",
      hasRecords(accounts) ? accounts : "  No bank accounts found.",
      "\nCredit Card Accounts:",
      hasRecords(cards) ? cards : "  No credit card accounts found.",
    ].join("\n");
  },
});

const transferFunds = defineDiscoverableTool("write", {
  name: "transfer_funds_between_bank_accounts_7291",
  parameters: ["source_account_id", "destination_account_id", "amount"],
  run: ({ agent }, { source_account_id, destination_account_id, amount: given }) => {
    if (isAnyMissing(source_account_id, destination_account_id) || given === null) {
      return "Error: Missing required parameters (source_account_id, destination_account_id, amount).";
    }
    const amount = toNumberIfAny(given);
    if (amount === null) return `Error: Invalid amount '${show(given)}'. Must be a number.`;
    if (amount <= 0) return "Error: Transfer amount must be positive.";
    if (pythonEquals(source_account_id, destination_account_id)) {
      return "Error: Source and destination accounts cannot be the same.";
    }
    const source = recordAt(agent, "accounts", source_account_id);
    if (source === null) return `Error: Source account '${show(source_account_id)}' not found.`;
    const destination = recordAt(agent, "accounts", destination_account_id);
    if (destination === null) return `Error: Destination account '${show(destination_account_id)}' not found.`;
    const [[from, payer], [to, payee]] = [source, destination];
    if (!isOpen(payer)) return `Error: Source account '${from}' is not active.`;
    if (!isOpen(payee)) return `Error: Destination account '${to}' is not active.`;
    const balance = balanceOf(payer);
    if (balance < amount) {
      return (
        `Error: Insufficient funds. Source account balance is $${fixedNumber(balance)}, ` +
        `but transfer amount is $${fixedNumber(amount)}.`
      );
    }
    const [left, received] = [balance - amount, balanceOf(payee) + amount].map((one) => `$${fixedNumber(one)}`);
    agent.edit("accounts", from).set("current_holdings", left!);
    agent.edit("accounts", to).set("current_holdings", received!);
    return [
      "Transfer completed successfully!",
      `  - Amount: $${fixedNumber(amount)}`,
      `  - From: ${from} (new balance: ${left})`,
      `  - To: ${to} (new balance: ${received})`,
    ].join("\n");
  },
});

/** A tool that credits accounts of one kind, with the descriptions of its transactions by type of credit. */
function creditTool(
  name: string,
  kind: {
    readonly classes: readonly string[];
    /** Sentence for an account of another class. */
    readonly refusal: string;
    readonly seed: string;
    /** Put before the new balance in the record. */
    readonly sign: string;
    readonly descriptions: ReadonlyMap<string, string>;
  },
): Method {
  const types = [...kind.descriptions.keys()];
  return defineDiscoverableTool("write", {
    name,
    parameters: ["account_id", "amount", "credit_type"],
    run: ({ agent }, { account_id, amount: given, credit_type }) => {
      if (!isTruthy(account_id) || given === null || !isTruthy(credit_type)) {
        return "Error: Missing required parameters.";
      }
      const amount = toNumberIfAny(given);
      if (amount === null) return "Error: Invalid credit amount. Must be a number.";
      if (amount <= 0) return "Error: Credit amount must be positive.";
      if (!isIn(credit_type, types)) return notOneOf("credit_type", types);
      const found = recordAt(agent, "accounts", account_id);
      if (found === null) return `Error: Account '${show(account_id)}' not found.`;
      const [id, account] = found;
      if (!kind.classes.includes(lowered(getField(account, "class", "")))) {
        return `Error: Account '${id}' ${kind.refusal}`;
      }
      if (!isOpen(account)) return `Error: Account '${id}' is not active.`;
      const before = balanceOf(account);
      const after = fixedNumber(before + amount);
      agent.edit("accounts", id).set("current_holdings", `${kind.sign}${after}`);
      const credit = new JsonFloat(amount);
      const transaction = `txn_${hashId(`${kind.seed}:${id}:${show(credit_type)}:${show(credit)}:${today}`)}`;
      const record = recordOf({
        transaction_id: transaction,
        account_id,
        date: today,
        description: kind.descriptions.get(credit_type as string)!,
        amount: credit,
        type: credit_type,
        status: "posted",
      });
      agent.put("bank_account_transaction_history", transaction, record);
      return [
        "\nCredit applied successfully!",
        `  - Transaction ID: ${transaction}`,
        `  - Account: ${id}`,
        `  - Credit Type: ${show(credit_type)}`,
        `  - Amount: $${fixedNumber(amount)}`,
        `  - Previous Balance: $${fixedNumber(before)}`,
        `  - New Balance: $${after}`,
      ].join("\n");
    },
  });
}

const reportDiscrepancy = defineDiscoverableTool("write", {
  name: "submit_interest_discrepancy_report_7294",
  parameters: ["account_id", "user_id", "expected_apy", "actual_apy", "amount_difference"],
  run: ({ agent }, { account_id, user_id, expected_apy, actual_apy, amount_difference }) => {
    const given = [expected_apy, actual_apy, amount_difference];
    if (isAnyMissing(account_id, user_id) || given.includes(null)) return "Error: Missing required parameters.";
    const expected = toNumberIfAny(expected_apy);
    const actual = toNumberIfAny(actual_apy);
    const difference = toNumberIfAny(amount_difference);
    if (expected === null || actual === null || difference === null) {
      return "Error: expected_apy, actual_apy, and amount_difference must be numbers.";
    }
    const account = recordAt(agent, "accounts", account_id);
    if (account === null) return `Error: Account '${show(account_id)}' not found.`;
    const user = recordAt(agent, "users", user_id);
    if (user === null) return `Error: User '${show(user_id)}' not found.`;
    const [expectedText, actualText, gap] = [expected, actual, roundFloat(expected - actual, 4)].map((apy) =>
      show(new JsonFloat(apy)),
    );
    const seed = `interest_report:${account[0]}:${user[0]}:${expectedText}:${actualText}:${today}`;
    // The reference has no table for these reports, so nothing is stored.
    return [
      "\nInterest Discrepancy Report Submitted Successfully!",
      `  - Report ID: IDR_${hashId(seed)}`,
      `  - Account: ${account[0]} (${show(getField(account[1], "level", "Unknown"))})`,
      `  - Customer: ${show(getField(user[1], "name", "Unknown"))}`,
      `  - Expected APY: ${expectedText}%`,
      `  - Actual APY: ${actualText}%`,
      `  - APY Difference: ${gap}%`,
      `  - Amount Difference: $${fixedNumber(difference)}`,
      "  - Status: PENDING_REVIEW",
      "\nThe backend team will investigate this discrepancy and ensure correct APY calculations are applied going forward.",
    ].join("\n");
  },
});

/** When a transaction happened; before everything else for a date that `strptime` refuses. */
function timeOf([, transaction]: Entry): number {
  const date = show(getField(transaction, "date", ""));
  return parseDateTime(date) ?? parseDate(date) ?? -Infinity;
}

function transactionsOf(database: Database, id: string): Entry[] {
  const own: Entry[] = [];
  for (const entry of database.records("bank_account_transaction_history")) {
    if (entry[1].get("account_id") === id) own.push(entry);
  }
  return own.toSorted((left, right) => {
    const [one, other] = [timeOf(left), timeOf(right)];
    return one < other ? 1 : one > other ? -1 : 0;
  });
}

const transactions = defineDiscoverableTool("read", {
  name: "get_bank_account_transactions_9173",
  parameters: ["account_id"],
  run: ({ agent }, { account_id }) => {
    if (!isTruthy(account_id)) return "Error: Missing required parameter: account_id";
    const account = recordAt(agent, "accounts", account_id);
    if (account === null) return `Error: Account '${show(account_id)}' not found.`;
    const shown = showEntries("bank_account_transaction_history", transactionsOf(agent, account[0]));
    return [
      "Bank account transactions retrieved successfully.",
      "",
      "Executed: get_bank_account_transactions_9173",
      `Transactions for account ${account[0]}:`,
      shown ?? "\nNo transactions found for this account.",
    ].join("\n");
  },
});

export const accountTools: readonly Method[] = [
  openAccount,
  closeAccount,
  allAccounts,
  transferFunds,
  creditTool("apply_checking_account_credit_5829", {
    classes: ["checking"],
    refusal: "is not a checking account. Credits can only be applied to checking accounts.",
    seed: "checking_credit",
    sign: "$",
    descriptions: new Map([
      ["rebate_credit", "REBATE CREDIT - CUSTOMER SERVICE"],
      ["fee_refund", "FEE REFUND - CUSTOMER SERVICE"],
    ]),
  }),
  creditTool("apply_savings_account_credit_6831", {
    classes: ["saving", "savings"],
    refusal: "is not a savings account. This tool only applies to savings accounts.",
    seed: "savings_credit",
    sign: "",
    descriptions: new Map([
      ["interest_correction", "INTEREST CORRECTION - CUSTOMER SERVICE"],
      ["fee_refund", "FEE REFUND - CUSTOMER SERVICE"],
      ["goodwill_credit", "GOODWILL CREDIT - CUSTOMER SERVICE"],
    ]),
  }),
  reportDiscrepancy,
  transactions,
];
