// An agent for the carrier's desk that needs no model: it looks the customer up, fixes the
// carrier's side, and goes through the phone's settings one after another, as the policy says. It
// reads only the prompt, so it cannot know a task's solution. It cannot hold a conversation: it
// requests tools by name, and makes mistakes only at the given rate.

import { createRandom, deriveSeed } from "../../lib/random.ts";
import {
  dumpJson,
  fromPlain,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
  toPlain,
} from "../../python-semantics/json/index.ts";

type Fields = Readonly<Record<string, unknown>>;
type Answered = { readonly name: string; readonly given: Fields; readonly text: string };

/** The content of a prompt in ChatML, with Qwen's format of calls and results. */
type Seen = {
  readonly system: string;
  readonly said: readonly string[];
  readonly heard: readonly string[];
  /** Calls that were answered without an error. */
  readonly answered: readonly Answered[];
};

type Action = { readonly say: string } | { readonly call: string; readonly given: Fields };

/**
 * The next action for a prompt of an agent of `tau2-bench/telecom`, generation prompt included.
 * `noise`: the probability of a mistake; the same prompt, noise and seed give the same action.
 * Throws a `RangeError` for a noise outside 0 to 1.
 */
export function telecomExpertAction(
  prompt: string,
  { noise = 0, seed = 0 }: { readonly noise?: number; readonly seed?: number } = {},
): { readonly text: string; readonly probability: number } {
  if (!(noise >= 0 && noise <= 1)) {
    throw new RangeError(`Cannot run the expert: noise is ${noise}, expected a number from 0 to 1.`);
  }
  const right = actionText(nextAction(readPrompt(prompt)));
  const random = createRandom(deriveSeed(seed, "expert", prompt));
  const mistakes = [actionText(handOver), "One moment, please.", withWrongId(right)].filter((text) => text !== right);
  if (random.next() >= noise) return { text: right, probability: 1 - noise };
  return { text: random.pick(mistakes), probability: noise / mistakes.length };
}

function withWrongId(text: string): string {
  return text.replaceAll(/"([A-Z])\d+"/g, '"$19999"');
}

function actionText(action: Action): string {
  if ("say" in action) return action.say;
  return `<tool_call>\n${dumpJson(fromPlain({ name: action.call, arguments: action.given }))}\n</tool_call>`;
}

function readPrompt(prompt: string): Seen {
  const [said, heard, answered]: [string[], string[], Answered[]] = [[], [], []];
  let system = "";
  let open: Omit<Answered, "text"> | null = null;
  for (const block of prompt.split("<|im_start|>").slice(1, -1)) {
    const [, role, body = ""] = /^(\w+)\n([\s\S]*?)(?:<\|im_end\|>\s*)?$/.exec(block) ?? [];
    if (role === "system") system = body;
    if (role === "assistant") {
      open = readCall(body);
      if (open === null) said.push(body);
    } else if (role === "user") {
      const result = /<tool_response>\n([\s\S]*?)\n<\/tool_response>/.exec(body)?.[1];
      if (result === undefined) heard.push(body);
      else if (open !== null && !result.startsWith("Error")) answered.push({ ...open, text: result });
    }
  }
  return { system, said, heard, answered };
}

function readCall(body: string): Omit<Answered, "text"> | null {
  const [, json] = /<tool_call>\n([\s\S]*?)\n<\/tool_call>/.exec(body) ?? [];
  const value = fieldsOf(json ?? "");
  return typeof value?.["name"] === "string" ? { name: value["name"], given: fieldsIn(value["arguments"]) } : null;
}

function fieldsIn(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function fieldsOf(json: string): Fields | null {
  try {
    const value: JsonValue = parseJson(json);
    return value instanceof Map || Array.isArray(value) ? fieldsIn(toPlain(value)) : null;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

const handOver: Action = { call: "transfer_to_human_agents", given: { summary: "I cannot fix the issue." } };

function nextAction(seen: Seen): Action {
  if (results(seen, "transfer_to_human_agents").length > 0) {
    return { say: "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON." };
  }
  const number = /\b\d{3}-\d{3}-\d{4}\b/.exec(seen.heard.join("\n"))?.[0];
  if (number === undefined) return { say: "What is your phone number?" };
  const customer = results(seen, "get_customer_by_phone").at(-1);
  if (customer === undefined) return { call: "get_customer_by_phone", given: { phone_number: number } };
  const details = results(seen, "get_details_by_id");
  const line = details.find((one) => one["phone_number"] === number);
  if (line === undefined) {
    const ids = Object.values(fieldsIn(customer["line_ids"]));
    const next = ids.find((id) => !details.some((one) => one["line_id"] === id));
    return next === undefined ? handOver : { call: "get_details_by_id", given: { id: next } };
  }
  const account = { customer_id: customer["customer_id"], line_id: line["line_id"] };
  const isAboutService = !/mobile data|internet|mms|picture/i.test(seen.heard[0] ?? "");
  return (
    liftSuspension(seen, line, account) ??
    (isAboutService ? null : openData(seen, line, account)) ??
    repairService(seen, isAboutService) ??
    (isAboutService ? null : repairData(seen)) ??
    (/mms|picture/i.test(seen.heard[0] ?? "") ? repairPictures(seen) : null) ??
    handOver
  );
}

/**
 * Lifts the suspension of a line with overdue bills; the agent may not lift it if the contract has
 * ended.
 */
function liftSuspension(seen: Seen, line: Fields, account: Fields): Action | null {
  if (line["status"] !== "Suspended" || results(seen, "resume_line").length > 0) return null;
  const today = /current time is (\d{4}-\d{2}-\d{2})/.exec(seen.system)?.[1] ?? "";
  if (String(line["contract_end_date"]) < today) return handOver;
  const { customer_id } = account;
  const bills = results(seen, "get_bills_for_customer").at(-1);
  if (bills === undefined) return { call: "get_bills_for_customer", given: { customer_id } };
  const overdue = Object.values(bills).map(fieldsIn).filter(({ status }) => status === "Overdue"); // prettier-ignore
  const requested = seen.answered.filter(({ name }) => name === "send_payment_request");
  const paid = seen.said.filter((text) => text.includes("make_payment")).length;
  if (paid < requested.length)
    return ask("I sent you a bill that is overdue.", "check_payment_request", "make_payment");
  const next = overdue.find(({ bill_id }) => !requested.some(({ given }) => given["bill_id"] === bill_id));
  if (next !== undefined) return { call: "send_payment_request", given: { customer_id, bill_id: next["bill_id"] } };
  return { call: "resume_line", given: account };
}

/** Enables data on the carrier's side: roaming, and more data if the allowance is used up. */
function openData(seen: Seen, line: Fields, account: Fields): Action | null {
  if (isAbroad(seen) && line["roaming_enabled"] === false && results(seen, "enable_roaming").length === 0) {
    return { call: "enable_roaming", given: account };
  }
  const plan = results(seen, "get_details_by_id").find((one) => "data_limit_gb" in one);
  if (plan === undefined) return { call: "get_details_by_id", given: { id: line["plan_id"] } };
  const left = Number(plan["data_limit_gb"]) + Number(line["data_refueling_gb"]) - Number(line["data_used_gb"]);
  if (left >= 0 || results(seen, "refuel_data").length > 0) return null;
  const price = String(plan["data_refueling_price_per_gb"]);
  const offer = `Your data are used up. Shall I add 2 GB, for ${price} USD each?`;
  return seen.said.includes(offer) ? { call: "refuel_data", given: { ...account, gb_amount: 2 } } : { say: offer };
}

const isAbroad = ({ heard }: Seen): boolean => /abroad/i.test(heard.join("\n"));

function repairService(seen: Seen, isAboutService: boolean): Action | null {
  if (!asked(seen, "check_network_status")) return ask("Let us see.", "check_network_status", "check_sim_status");
  if (/Airplane Mode: ON/.test(lastWith(seen, "Airplane Mode: ")) && !asked(seen, "toggle_airplane_mode")) {
    return ask("It is in flight mode.", "toggle_airplane_mode");
  }
  const sim = lastWith(seen, "SIM card");
  if (sim.includes("No SIM card detected")) {
    if (!asked(seen, "reseat_sim_card")) return ask("The card is not seated well.", "reseat_sim_card");
    if (seen.said.filter((text) => text.includes("check_sim_status")).length < 2) return ask("Once more:", "check_sim_status"); // prettier-ignore
  }
  if (sim.includes("SIM card is locked")) return handOver;
  const isResumed = results(seen, "resume_line").length > 0;
  if ((isResumed || isAboutService) && !asked(seen, "reboot_device")) return resetApn;
  return null;
}

function repairData(seen: Seen): Action | null {
  if (/Mobile Data Enabled: No/.test(lastWith(seen, "Mobile Data Enabled: ")) && !asked(seen, "toggle_data")) {
    return ask("Data are off.", "toggle_data");
  }
  const isRoamingOff = /Data Roaming Enabled: No/.test(lastWith(seen, "Data Roaming Enabled: "));
  if (isAbroad(seen) && isRoamingOff && !asked(seen, "toggle_roaming")) {
    return ask("You are abroad, and roaming is off.", "toggle_roaming");
  }
  if (!asked(seen, "check_vpn_status")) {
    return ask(
      "Now your settings.",
      "check_data_restriction_status",
      "check_network_mode_preference",
      "check_vpn_status",
    );
  }
  if (lastWith(seen, "Data Saver mode").includes("mode is ON") && !asked(seen, "toggle_data_saver_mode")) {
    return ask("Data saver is on.", "toggle_data_saver_mode");
  }
  const isOld = /Preference: [23]g_only/.test(lastWith(seen, "Network Mode Preference: "));
  if (isOld && !asked(seen, "set_network_mode_preference")) {
    return ask("Your phone prefers an old network.", "set_network_mode_preference 4g_5g_preferred");
  }
  const isVpnOn = /VPN is ON/.test(lastWith(seen, "VPN is "));
  return isVpnOn && !asked(seen, "disconnect_vpn") ? ask("A VPN slows it down.", "disconnect_vpn") : null;
}

function repairPictures(seen: Seen): Action | null {
  if (!asked(seen, "check_apn_settings")) {
    return ask(
      "And for messages:",
      "check_wifi_calling_status",
      "check_apn_settings",
      "check_app_permissions messaging",
    );
  }
  if (lastWith(seen, "Wi-Fi Calling is").includes("turned ON") && !asked(seen, "toggle_wifi_calling")) {
    return ask("Messages do not pass over Wi-Fi.", "toggle_wifi_calling");
  }
  if (lastWith(seen, "MMSC URL").includes("Not Set") && !asked(seen, "reboot_device")) return resetApn;
  const granted = lastWith(seen, "App 'messaging'");
  const missing = ["sms", "storage"].find(
    (one) => !granted.includes(one) && !asked(seen, `grant_app_permission messaging ${one}`),
  );
  return missing === undefined ? null : ask("A right is missing.", `grant_app_permission messaging ${missing}`);
}

function ask(why: string, ...tools: readonly string[]): Action {
  return { say: `${why} Please run ${tools.join(", then ")}, and tell me what your phone shows.` };
}

const resetApn = ask("Let us start afresh.", "reset_apn_settings", "reboot_device");

const asked = ({ said }: Seen, tool: string): boolean => said.some((text) => text.includes(tool));

/** The last line of the customer's reports that contains the text; "" if there is none. */
function lastWith({ heard }: Seen, words: string): string {
  const all = heard.join("\n");
  const at = all.lastIndexOf(words);
  return at === -1 ? "" : all.slice(all.lastIndexOf("\n", at) + 1).split("\n", 1)[0]!;
}

/** Answers to calls of a tool, as records; an answer that is not a record is empty. */
function results({ answered }: Seen, tool: string): Fields[] {
  return answered.flatMap(({ name, text }) => (name === tool ? [fieldsOf(text) ?? {}] : []));
}
