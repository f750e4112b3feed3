// The tools that the bank's agent is shown: customers, verifications, and the wrappers with which it
// unlocks, calls and gives away the tools that only the documents name.

import { isTruthy, PythonError, pythonTypeName, typeError } from "../../../python-semantics/index.ts";
import { JsonFloat, JsonSyntaxError, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import { asKey, iterate } from "../../tables/index.ts";
import { callMethod, defineTool, type Method, type Toolkit, type WorldState } from "../toolkit.ts";
import { hashId } from "./ids.ts";
import { expectString, isIn, recordOf, show, showJson } from "./python.ts";
import { addRecord, queryAll, queryBy, recordAt } from "./query.ts";
import type { ToolDocs } from "./tool-docs.ts";

const transferReasons = [
  "fraud_or_security_concern",
  "account_closure_request",
  "deceased_account_holder",
  "legal_or_regulatory_matter",
  "account_ownership_dispute",
  "complex_billing_dispute",
  "abusive_customer_behavior",
  "third_party_inquiry",
  "technical_system_error",
  "unconfirmed_external_communication",
  "customer_demands_after_unavailable_offer_refusal",
  "kb_search_unsuccessful_customer_requests_transfer",
  "specialized_department_required",
  "accessibility_or_special_needs",
  "customer_frustrated_demands_human",
  "supervisor_request_service_complaint",
  "customer_requests_human_no_specific_reason",
  "request_completed_customer_wants_human_followup",
  "other",
];

/** A read of all records of a table whose field equals the argument. */
function lookUp(name: string, [table, field, parameter = field]: readonly [string, string, string?]): Method {
  return defineTool("read", {
    name,
    parameters: [parameter],
    run: ({ agent }, args: Readonly<Record<string, JsonValue>>) => queryBy(agent, table, field, args[parameter]!),
  });
}

export const customerTools: readonly Method[] = [
  defineTool("generic", {
    name: "transfer_to_human_agents",
    parameters: ["summary", ["reason", "other"]],
    run: (_, { reason }) =>
      isIn(reason, transferReasons)
        ? `Transfer successful (reason: ${show(reason)}). A human agent will assist you shortly.`
        : `Error: Invalid transfer reason '${show(reason)}'. Must be one of: ${transferReasons.join(", ")}`,
  }),
  defineTool("read", {
    name: "get_current_time",
    parameters: [],
    run: () => "The current time is 2025-11-14 03:40:00 EST.",
  }),
  lookUp("get_user_information_by_id", ["users", "user_id"]),
  lookUp("get_user_information_by_name", ["users", "name", "customer_name"]),
  lookUp("get_user_information_by_email", ["users", "email"]),
  defineTool("write", {
    name: "change_user_email",
    parameters: ["user_id", "new_email"],
    run: ({ agent }, { user_id, new_email }) => {
      const user = recordAt(agent, "users", user_id);
      if (user === null) return `Error: User with ID '${show(user_id)}' not found.`;
      agent.edit("users", user[0]).set("email", new_email);
      return `Email updated successfully.\n  - User ID: ${show(user_id)}\n  - New Email: ${show(new_email)}`;
    },
  }),
  lookUp("get_referrals_by_user", ["referrals", "referrer_id", "user_id"]),
  lookUp("get_credit_card_transactions_by_user", ["credit_card_transaction_history", "user_id"]),
  lookUp("get_credit_card_accounts_by_user", ["credit_card_accounts", "user_id"]),
  defineTool("write", {
    name: "log_verification",
    parameters: ["name", "user_id", "address", "email", "phone_number", "date_of_birth", "time_verified"],
    run: ({ agent }, args) => {
      const time = expectString(args.time_verified, "replace");
      const id = `${show(args.user_id)}_${time.replaceAll(" ", "_").replaceAll(":", "").replaceAll("-", "")}`;
      const { name, user_id, address, email, phone_number, date_of_birth, time_verified } = args;
      const record = recordOf({ name, user_id, address, email, phone_number, date_of_birth, time_verified });
      if (!addRecord(agent, "verification_history", id, record)) {
        return "Failed to log verification: Record may already exist.";
      }
      return `Verification logged successfully.\n  - User: ${show(name)} (ID: ${show(user_id)})\n  - Verified at: ${time}`;
    },
  }),
];

/** `json.loads(text, parse_int=float)`, or with integers. Raises where the reference does not catch. */
export function readArguments(written: JsonValue, { keepsIntegers = false } = {}): JsonValue | JsonSyntaxError {
  if (typeof written !== "string") {
    throw typeError(`the JSON object must be str, bytes or bytearray, not ${pythonTypeName(written)}`);
  }
  try {
    const value = parseJson(written);
    return keepsIntegers ? value : withFloats(value);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    if (error.pythonType === "JSONDecodeError") return error;
    throw new PythonError(error.pythonType, error.pythonMessage);
  }
}

function withFloats(value: JsonValue): JsonValue {
  if (typeof value === "number" || typeof value === "bigint") return new JsonFloat(Number(value));
  if (Array.isArray(value)) return value.map(withFloats);
  return value instanceof Map ? new Map([...value].map(([key, item]) => [key, withFloats(item)])) : value;
}

const jsonProblem = (error: JsonSyntaxError): string => `Error: Invalid JSON in arguments: ${error.pythonMessage}`;

/** The discoverable tool of a name of any type; raises for an unhashable one. */
export function discoverableTool(toolkit: Toolkit, name: JsonValue): Method | null {
  const key = asKey(name);
  const method = key === null ? undefined : toolkit.methods.get(key);
  return method?.tool?.isDiscoverable === true ? method : null;
}

/** Calls a discoverable tool with `**arguments`. */
export function callDiscoverable(toolkit: Toolkit, method: Method, world: WorldState, given: JsonValue): string {
  if (given instanceof Map) return callMethod(toolkit, method, { world, given }) as string;
  const place = `tau2.domains.banking_knowledge.tools.${toolkit.className}.${method.name}()`;
  throw typeError(`${place} argument after ** must be a mapping, not ${pythonTypeName(given)}`);
}

/** The message of a TypeError of an action; other exceptions pass. */
export function unlessTypeError(action: () => string, explain: (message: string) => string): string {
  try {
    return action();
  } catch (error) {
    if (error instanceof PythonError && error.pythonType === "TypeError") return explain(error.message);
    throw error;
  }
}

/** The wrappers, given the toolkits that they look tools up in. */
export function discoveryTools(toolkits: {
  readonly agent: () => Toolkit;
  readonly user: Toolkit;
  readonly docs: { readonly agent: ToolDocs; readonly user: ToolDocs };
}): readonly Method[] {
  const { docs } = toolkits;
  const unknown = (name: JsonValue): string => `Error: Unknown agent tool '${show(name)}'. This tool is not available.`;
  return [
    defineTool("generic", {
      name: "give_discoverable_user_tool",
      parameters: ["discoverable_tool_name", ["arguments", "{}"]],
      mutates: true,
      run: ({ agent }, { discoverable_tool_name: name, arguments: written }) => {
        if (typeof name !== "string") throw typeError(`attribute name must be string, not '${pythonTypeName(name)}'`);
        const method = discoverableTool(toolkits.user, name);
        if (method === null) return `Error: Unknown discoverable tool '${name}'.`;
        const given = readArguments(written, { keepsIntegers: true });
        if (given instanceof JsonSyntaxError) return jsonProblem(given);
        for (const key of iterate(given)) {
          const parameter = asKey(key);
          const isKnown = parameter === "self" || method.parameters.some((one) => one === parameter);
          if (!isKnown) return `Error: Unexpected parameter: ${show(key)}`;
        }
        const id = hashId(`user_discoverable_tool:${name}`);
        addRecord(agent, "user_discoverable_tools", id, recordOf({ tool_name: name, status: "GIVEN" }));
        return (
          `Tool given to user: ${name}\nDescription: ${docs.user.of(method).description}\n` +
          `Arguments: ${isTruthy(given) ? showJson(given) : "(no arguments)"}\n\n` +
          "The user can now execute this action by calling `call_discoverable_user_tool` " +
          `with discoverable_tool_name='${name}' and the same arguments.`
        );
      },
    }),
    defineTool("generic", {
      name: "unlock_discoverable_agent_tool",
      parameters: ["agent_tool_name"],
      mutates: true,
      run: ({ unlocked }, { agent_tool_name: name }) => {
        const method = discoverableTool(toolkits.agent(), name);
        if (method === null) return unknown(name);
        unlocked.add(method.name);
        const { description, text } = docs.agent.of(method);
        return (
          `Tool unlocked: ${method.name}\nDescription: ${description}\n\n${text}\n\n` +
          "You can now use this tool by calling `call_discoverable_agent_tool` with " +
          `agent_tool_name='${method.name}' and the required arguments.`
        );
      },
    }),
    defineTool("write", {
      name: "call_discoverable_agent_tool",
      parameters: ["agent_tool_name", ["arguments", "{}"]],
      run: (world, { agent_tool_name: name, arguments: written }) => {
        const toolkit = toolkits.agent();
        const method = discoverableTool(toolkit, name);
        if (method === null) return unknown(name);
        if (!world.unlocked.has(method.name)) {
          return (
            `Error: Tool '${method.name}' has not been unlocked. ` +
            "You must first use `unlock_discoverable_agent_tool` to unlock this tool before calling it."
          );
        }
        const given = readArguments(written);
        if (given instanceof JsonSyntaxError) return jsonProblem(given);
        return unlessTypeError(
          () => {
            const result = callDiscoverable(toolkit, method, world, given);
            if (method.tool!.mutates || world.loggedReads.has(method.name)) logCall(world, method.name);
            return result;
          },
          (message) => `Error: Invalid arguments: ${message}`,
        );
      },
    }),
    defineTool("read", {
      name: "list_discoverable_agent_tools",
      parameters: [],
      run: ({ agent }) => `Your called agent tools:\n${queryAll(agent, "agent_discoverable_tools")}`,
    }),
  ];
}

function logCall({ agent }: WorldState, name: string): void {
  const id = hashId(`agent_discoverable_tool:${name}`);
  addRecord(agent, "agent_discoverable_tools", id, recordOf({ tool_name: name, status: "CALLED" }));
}
