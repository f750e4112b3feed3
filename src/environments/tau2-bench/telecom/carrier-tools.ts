// The carrier's side: customers, lines, bills and plans. The current date is fixed, as in the
// reference.

import {
  expectIndex,
  isOrdered,
  isTruthy,
  pythonAdd,
  pythonEquals,
  PythonError,
  pythonMultiply,
  pythonStr,
  pythonSubtract,
  valueError,
} from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { attributeError, field, listField, lower, textField } from "../../tables/index.ts";
import {
  transferTool,
  defineMethod,
  defineTool,
  defineToolkit,
  fixed,
  isOneOf,
  ModelResult,
  numberOf,
  type WorldState,
} from "../toolkit.ts";
import type { Database } from "../database.ts";
import { bill, lineItem } from "./telecom-models.ts";

const today = "2025-02-25";

type Kind = { readonly table: string; readonly noun: string };

const kinds = {
  customer: { table: "customers", noun: "Customer" },
  line: { table: "lines", noun: "Line" },
  plan: { table: "plans", noun: "Plan" },
  device: { table: "devices", noun: "Device" },
  bill: { table: "bills", noun: "Bill" },
} as const satisfies Record<string, Kind>;

/** The id of a record, given a value of any type; raises if it does not exist. */
function find(database: Database, { table, noun }: Kind, id: JsonValue): string {
  // The table is checked first: a database that lacks it raises for every id.
  const records = database.base.table(table);
  if (typeof id === "string" && (records.has(id) || database.own(table).has(id))) return id;
  throw valueError(`${noun} with ID ${pythonStr(id)} not found`);
}

function read(database: Database, kind: Kind, id: JsonValue): JsonObject {
  return database.read(kind.table, find(database, kind, id))!;
}

/** The id of a customer's line. */
function findLine(database: Database, customerId: JsonValue, lineId: JsonValue): string {
  const customer = read(database, kinds.customer, customerId);
  if (!listField(customer, "line_ids").some((id) => pythonEquals(id, lineId))) {
    throw valueError(`Line ${pythonStr(lineId)} not found for customer ${pythonStr(customerId)}`);
  }
  return find(database, kinds.line, lineId);
}

/** The line with a phone number. */
export function lineOf(database: Database, number: JsonValue): JsonObject {
  for (const [, line] of database.records("lines")) if (pythonEquals(line.get("phone_number")!, number)) return line;
  throw valueError(`Line with phone number ${pythonStr(number)} not found`);
}

export function planOf(database: Database, line: JsonObject): JsonObject {
  return read(database, kinds.plan, line.get("plan_id")!);
}

/** The customer with a phone number, its own or that of a line. */
export function customerOf(database: Database, number: JsonValue): JsonObject {
  for (const [, customer] of database.records("customers")) {
    if (pythonEquals(customer.get("phone_number")!, number)) return customer;
    for (const id of listField(customer, "line_ids")) {
      if (pythonEquals(read(database, kinds.line, id).get("phone_number")!, number)) return customer;
    }
  }
  throw valueError(`Customer with phone number ${pythonStr(number)} not found`);
}

function billsOf(database: Database, customer: JsonObject, status: string): JsonObject[] {
  const bills = listField(customer, "bill_ids").map((id) => read(database, kinds.bill, id));
  return bills.filter((one) => one.get("status") === status);
}

/** The first bill that the customer was requested to pay; `null` if there is none. */
export function billAwaitingPayment(database: Database, customer: JsonObject): JsonObject | null {
  return billsOf(database, customer, "Awaiting Payment")[0] ?? null;
}

export function setBillToPaid(database: Database, id: JsonValue): void {
  database.edit("bills", find(database, kinds.bill, id)).set("status", "Paid");
}

const byId = defineTool("read", {
  name: "get_details_by_id",
  parameters: ["id"],
  run: ({ agent }, { id }) => {
    const letters: readonly (readonly [string, Kind])[] = [
      ["L", kinds.line],
      ["D", kinds.device],
      ["B", kinds.bill],
      ["C", kinds.customer],
      ["P", kinds.plan],
    ];
    if (typeof id !== "string") throw attributeError(id, "startswith");
    const kind = letters.find(([letter]) => letter === id[0])?.[1];
    if (kind === undefined) throw valueError(`Unknown ID format or type: ${pythonStr(id)}`);
    return new ModelResult(read(agent, kind, id));
  },
});

const lookUps = [
  defineTool("read", {
    name: "get_customer_by_phone",
    parameters: ["phone_number"],
    run: ({ agent }, { phone_number }) => new ModelResult(customerOf(agent, phone_number)),
  }),
  defineTool("read", {
    name: "get_customer_by_id",
    parameters: ["customer_id"],
    run: ({ agent }, { customer_id }) => new ModelResult(read(agent, kinds.customer, customer_id)),
  }),
  defineTool("read", {
    name: "get_customer_by_name",
    parameters: ["full_name", "dob"],
    run: ({ agent }, { full_name, dob }) =>
      Array.from(agent.records("customers"), ([, customer]) => customer)
        .filter(
          (one) => lower(one.get("full_name")!) === lower(full_name) && pythonEquals(one.get("date_of_birth")!, dob),
        )
        .map((customer) => new ModelResult(customer)),
  }),
  byId,
];

const suspendLine = defineTool("write", {
  name: "suspend_line",
  parameters: ["customer_id", "line_id", "reason"],
  run: ({ agent }, { customer_id, line_id }) => {
    const id = findLine(agent, customer_id, line_id);
    if (agent.read("lines", id)!.get("status") !== "Active") throw valueError("Line must be active to suspend");
    const line = agent.edit("lines", id).set("status", "Suspended").set("suspension_start_date", today);
    const message = "Line suspended successfully. $5/month holding fee will apply.";
    return new Map<string, string | ModelResult>([
      ["message", message],
      ["line", new ModelResult(line)],
    ]);
  },
});

const resumeLine = defineTool("write", {
  name: "resume_line",
  parameters: ["customer_id", "line_id"],
  run: ({ agent }, { customer_id, line_id }) => {
    const id = findLine(agent, customer_id, line_id);
    if (!isOneOf(agent.read("lines", id)!.get("status")!, ["Suspended", "Pending Activation"])) {
      throw valueError("Line must be suspended to resume");
    }
    const line = agent.edit("lines", id).set("status", "Active").set("suspension_start_date", null);
    return new Map<string, string | ModelResult>([
      ["message", "Line resumed successfully"],
      ["line", new ModelResult(line)],
    ]);
  },
});

const getBills = defineTool("read", {
  name: "get_bills_for_customer",
  parameters: ["customer_id", ["limit", 12]],
  run: ({ agent }, { customer_id, limit }) => {
    const customer = read(agent, kinds.customer, customer_id);
    const bills = listField(customer, "bill_ids").map((id) => read(agent, kinds.bill, id));
    const issued = (one: JsonObject): string => textField(one, "issue_date");
    const newest = bills.toSorted((left, right) =>
      issued(left) < issued(right) ? 1 : issued(left) > issued(right) ? -1 : 0,
    );
    return newest.slice(0, limit === null ? undefined : sliceEnd(limit)).map((one) => new ModelResult(one));
  },
});

function sliceEnd(limit: JsonValue): number {
  if (typeof limit === "boolean" || typeof limit === "number" || typeof limit === "bigint") return expectIndex(limit);
  throw new PythonError("TypeError", "slice indices must be integers or None or have an __index__ method");
}

const sendPaymentRequest = defineTool("write", {
  name: "send_payment_request",
  parameters: ["customer_id", "bill_id"],
  run: ({ agent }, { customer_id, bill_id }) => {
    const customer = read(agent, kinds.customer, customer_id);
    if (billAwaitingPayment(agent, customer) !== null) {
      throw valueError("A bill is already awaiting payment for this customer");
    }
    if (!listField(customer, "bill_ids").some((id) => pythonEquals(id, bill_id))) {
      throw valueError(`Bill ${pythonStr(bill_id)} not found for customer ${pythonStr(customer_id)}`);
    }
    const id = find(agent, kinds.bill, bill_id);
    agent.edit("bills", id).set("status", "Awaiting Payment");
    return `Payment request sent to the customer for bill ${id}`;
  },
});

const getDataUsage = defineTool("read", {
  name: "get_data_usage",
  parameters: ["customer_id", "line_id"],
  run: ({ agent }, { customer_id, line_id }) => {
    const id = findLine(agent, customer_id, line_id);
    const line = agent.read("lines", id)!;
    const shown = (record: JsonObject, key: string): [string, JsonFloat] => [key, field(record, key) as JsonFloat];
    return new Map<string, string | JsonFloat>([
      ["line_id", id],
      shown(line, "data_used_gb"),
      shown(planOf(agent, line), "data_limit_gb"),
      shown(line, "data_refueling_gb"),
      ["cycle_end_date", "2025-02-28"],
    ]);
  },
});

/** A tool that switches roaming of a line on or off. */
function roamingTool(name: string, isOn: boolean): ReturnType<typeof defineTool> {
  const state = isOn ? "enabled" : "disabled";
  return defineTool("write", {
    name,
    parameters: ["customer_id", "line_id"],
    run: ({ agent }, { customer_id, line_id }) => {
      const id = findLine(agent, customer_id, line_id);
      if (agent.read("lines", id)!.get("roaming_enabled") === isOn) return `Roaming was already ${state}`;
      agent.edit("lines", id).set("roaming_enabled", isOn);
      return `Roaming ${state} successfully`;
    },
  });
}

const refuelData = defineTool("write", {
  name: "refuel_data",
  parameters: ["customer_id", "line_id", "gb_amount"],
  run: (world, { customer_id, line_id, gb_amount }) => {
    const { agent } = world;
    const id = findLine(agent, customer_id, line_id);
    if (isOrdered("<=", gb_amount, 0)) throw valueError("Refuel amount must be positive");
    const price = planOf(agent, agent.read("lines", id)!).get("data_refueling_price_per_gb")!;
    const charge = pythonMultiply(gb_amount, price) as JsonFloat;
    const line = agent.edit("lines", id);
    line.set("data_refueling_gb", pythonAdd(field(line, "data_refueling_gb"), gb_amount, "+="));
    const amount = pythonStr(gb_amount);
    chargeOnce(world, customer_id as string, {
      amount: charge,
      description: `Data refueling: ${amount} GB at $${pythonStr(price)}/GB`,
    });
    return new Map<string, string | JsonFloat>([
      ["message", `Successfully added ${amount} GB of data for line ${id} for $${fixed(charge.value, 2)}`],
      ["new_data_refueling_gb", field(line, "data_refueling_gb") as JsonFloat],
      ["charge", charge],
    ]);
  },
});

/** Adds a charge to the customer's first draft bill, or to a new one. */
function chargeOnce(
  world: WorldState,
  customerId: string,
  { amount, description }: { readonly amount: JsonFloat; readonly description: string },
): void {
  const { agent } = world;
  const draft = billsOf(agent, read(agent, kinds.customer, customerId), "Draft")[0];
  const id = draft === undefined ? addDraft(world, customerId) : textField(draft, "bill_id");
  const record = agent.edit("bills", id);
  addItem(record, { amount, description });
}

function addDraft(world: WorldState, customerId: string): string {
  const id = world.createId();
  const draft = bill.make({
    bill_id: id,
    customer_id: customerId,
    period_start: "2025-03-01",
    period_end: "2025-03-31",
    issue_date: "2025-03-01",
    total_due: 0,
    due_date: "2025-03-15",
    status: "Draft",
  });
  world.agent.put("bills", id, draft);
  listField(world.agent.edit("customers", customerId), "bill_ids").push(id);
  return id;
}

function addItem(
  record: JsonObject,
  { amount, description }: { readonly amount: JsonFloat; readonly description: string },
): void {
  const type = amount.value < 0 ? "Credit" : "Charge";
  listField(record, "line_items").push(lineItem.make({ description, amount, date: today, item_type: type }));
  record.set("total_due", new JsonFloat(numberOf(record, "total_due") + amount.value));
}

/** Methods for initial states and for assertions. */
const methods = [
  defineMethod({
    name: "get_available_plan_ids",
    parameters: [],
    run: ({ agent }) => Array.from(agent.records("plans"), ([id]) => id),
  }),
  defineMethod({
    name: "set_data_usage",
    parameters: ["customer_id", "line_id", "data_used_gb"],
    run: ({ agent }, { customer_id, line_id, data_used_gb }) => {
      const id = findLine(agent, customer_id, line_id);
      agent.edit("lines", id).set("data_used_gb", data_used_gb);
      return `Data usage set to ${pythonStr(data_used_gb)} GB for line ${id}`;
    },
  }),
  defineMethod({
    name: "suspend_line_for_overdue_bill",
    parameters: ["customer_id", "line_id", "new_bill_id", "contract_ended"],
    run: ({ agent }, { customer_id, line_id, new_bill_id, contract_ended }) => {
      const id = find(agent, kinds.line, line_id);
      const known = agent.read("lines", id)!;
      if (known.get("status") !== "Active") throw valueError("Line must be active to suspend for unpaid bill");
      const amount = planOf(agent, known).get("price_per_month") as JsonFloat;
      if (amount.value <= 0) throw valueError("Amount must be positive for overdue bill");
      const customerId = find(agent, kinds.customer, customer_id);
      if (billsOf(agent, agent.read("customers", customerId)!, "Overdue").length > 0) {
        throw valueError("Customer already has an overdue bill");
      }
      const overdue = bill.make({
        bill_id: new_bill_id,
        customer_id: customerId,
        period_start: "2025-01-01",
        period_end: "2025-01-31",
        issue_date: "2025-01-01",
        total_due: 0,
        due_date: "2025-01-15",
        status: "Overdue",
      });
      addItem(overdue, { amount, description: `Charge for line ${id}` });
      const billId = textField(overdue, "bill_id");
      agent.put("bills", billId, overdue);
      listField(agent.edit("customers", customerId), "bill_ids").push(billId);
      const line = agent.edit("lines", id).set("status", "Suspended").set("suspension_start_date", today);
      if (isTruthy(contract_ended)) line.set("contract_end_date", "2025-01-31");
      return `Line ${id} suspended for unpaid bill ${billId}. Contract ended: ${pythonStr(contract_ended)}`;
    },
  }),
  defineMethod({
    name: "assert_data_refueling_amount",
    parameters: ["customer_id", "line_id", "expected_amount"],
    run: ({ agent }, { customer_id, line_id, expected_amount }) => {
      const line = agent.read("lines", findLine(agent, customer_id, line_id))!;
      const difference = pythonSubtract(field(line, "data_refueling_gb"), expected_amount) as JsonFloat;
      return Math.abs(difference.value) < 1e-6;
    },
  }),
  defineMethod({
    name: "assert_line_status",
    parameters: ["customer_id", "line_id", "expected_status"],
    run: ({ agent }, { customer_id, line_id, expected_status }) =>
      pythonEquals(agent.read("lines", findLine(agent, customer_id, line_id))!.get("status")!, expected_status),
  }),
  defineMethod({
    name: "assert_overdue_bill_exists",
    parameters: ["customer_id", "overdue_bill_id"],
    run: ({ agent }, { customer_id, overdue_bill_id }) => {
      const customer = read(agent, kinds.customer, customer_id);
      const id = pythonStr(overdue_bill_id);
      if (!listField(customer, "bill_ids").some((one) => pythonEquals(one, overdue_bill_id))) {
        throw valueError(`Overdue bill ${id} not found`);
      }
      if (read(agent, kinds.bill, overdue_bill_id).get("status") !== "Overdue") {
        throw valueError(`Overdue bill ${id} is not overdue`);
      }
      return true;
    },
  }),
  defineMethod({
    name: "assert_no_overdue_bill",
    parameters: ["overdue_bill_id"],
    run: ({ agent }, { overdue_bill_id }) => {
      const found = typeof overdue_bill_id === "string" ? agent.read("bills", overdue_bill_id) : undefined;
      return found === undefined || found.get("status") === "Paid";
    },
  }),
];

export const carrierToolkit = defineToolkit("TelecomTools", [
  ...lookUps,
  suspendLine,
  resumeLine,
  getBills,
  sendPaymentRequest,
  getDataUsage,
  roamingTool("enable_roaming", true),
  roamingTool("disable_roaming", false),
  transferTool,
  refuelData,
  ...methods,
]);
