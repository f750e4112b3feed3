// The carrier and its customer, who has a phone and tools of its own. A sync passes changes of one
// side on to the other.

import { isOrdered, pythonAdd } from "../../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { field } from "../../tables/index.ts";
import type { Domain, WorldState } from "../toolkit.ts";
import { billAwaitingPayment, carrierToolkit, customerOf, lineOf, planOf, setBillToPaid } from "./carrier-tools.ts";
import { editSurroundings, isOn, surroundingsOf } from "./phone.ts";
import { phoneToolkit } from "./phone-tools.ts";
import { paymentRequest, phoneDatabase, telecomDatabase } from "./telecom-models.ts";

/**
 * Passes the state of the customer's line on to the phone, a payment on to the bill, and a request
 * for payment on to the customer.
 */
function sync({ agent, user }: WorldState): void {
  const number = field(surroundingsOf(user), "phone_number");
  if (number === null) return;
  const line = lineOf(agent, number);
  const set = (key: string, value: JsonValue): void => {
    // Most syncs change nothing, and an unchanged record is not copied.
    if (field(surroundingsOf(user), key) !== value) editSurroundings(user).set(key, value);
  };
  set("line_active", line.get("status") === "Active");
  set("roaming_allowed", isOn(line, "roaming_enabled"));
  const allowance = pythonAdd(field(planOf(agent, line), "data_limit_gb"), field(line, "data_refueling_gb"));
  set("mobile_data_usage_exceeded", isOrdered(">=", field(line, "data_used_gb"), allowance));
  const current = field(surroundingsOf(user), "payment_request");
  if (current instanceof Map && isOn(current, "paid")) {
    setBillToPaid(agent, field(current, "bill_id"));
    set("payment_request", null);
  }
  if (field(surroundingsOf(user), "payment_request") !== null) return;
  const bill = billAwaitingPayment(agent, customerOf(agent, number));
  if (bill !== null) set("payment_request", requestFor(bill));
}

function requestFor(bill: JsonObject): JsonObject {
  return paymentRequest.make({ bill_id: field(bill, "bill_id"), amount_due: field(bill, "total_due") });
}

function telecom(name: string, support: readonly [file: string, soloFile: string]): Domain {
  return {
    name,
    folder: "telecom",
    agent: { toolkit: carrierToolkit, database: telecomDatabase, file: "db.toml" },
    user: { toolkit: phoneToolkit, database: phoneDatabase, file: "user_db.toml" },
    sync,
    knowledge: null,
    soloRefusal: null,
    policy: {
      files: ["main_policy.md", support[0]],
      soloFiles: ["main_policy_solo.md", support[1]],
      assemble: ([main, technical]) =>
        `<main_policy>\n${main}\n</main_policy>\n<tech_support_policy>\n${technical}\n</tech_support_policy>`,
    },
  };
}

export const telecomDomain = telecom("telecom", ["tech_support_manual.md", "tech_support_manual.md"]);

/** The same world, with the technical support's instructions as a workflow. */
export const telecomWorkflowDomain = telecom("telecom-workflow", [
  "tech_support_workflow.md",
  "tech_support_workflow_solo.md",
]);
