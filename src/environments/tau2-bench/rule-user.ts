// A customer of the carrier who follows rules instead of a model: it states the reason for its
// call, answers questions from what it knows, follows instructions on its phone, reports what the
// phone shows, and hangs up when the phone works. Deterministic and free; its sentences are our
// own. It understands requests that name a tool, or describe it in plain language; it cannot hold a
// conversation.

import type { Task, ToolResult, UserSide } from "../../core/environment.ts";
import { ConfigurationError } from "../../core/failure.ts";
import type { UserCallOptions, UserLine, UserSimulator, UserSource } from "../../core/user.ts";
import { freeUsage } from "../../core/user-line.ts";
import type { JsonObject } from "../../python-semantics/json/index.ts";
import { stopToken } from "./conversation.ts";

type Request = {
  readonly tool: string;
  /**
   * Pattern of a request for the tool, lower case. The tool's name, with spaces or underscores,
   * always matches.
   */
  readonly heardAs: RegExp;
  /**
   * Arguments from the text of the request. `null` if the text lacks a required one. Default: a
   * tool without arguments.
   */
  readonly given?: (text: string) => Readonly<Record<string, string>> | null;
};

const permissions = ["sms", "storage", "phone", "network"];

function appIn(text: string): string {
  return text.includes("browser") ? "browser" : "messaging";
}

const change = "(turn|toggle|switch|set|enable|disable|put)";

/** Requests in the order in which they are matched; each at most once per utterance. */
const requests: readonly Request[] = [
  { tool: "check_status_bar", heardAs: /status bar/ },
  { tool: "check_network_status", heardAs: /network status/ },
  { tool: "check_network_mode_preference", heardAs: /check (your|the) (preferred )?network mode/ },
  {
    tool: "set_network_mode_preference",
    heardAs: new RegExp(`${change}[^.]{0,100}(network mode|preferred network)`),
    given: (text) => ({ mode: /(4g_5g_preferred|4g_only|3g_only|2g_only)/.exec(text)?.[1] ?? "4g_5g_preferred" }),
  },
  { tool: "toggle_airplane_mode", heardAs: new RegExp(`${change}[^.]{0,100}airplane mode`) },
  { tool: "check_sim_status", heardAs: /check[^.]{0,100}sim card|sim status/ },
  { tool: "reseat_sim_card", heardAs: /(re-?seat|re-?insert)[^.]{0,100}sim/ },
  { tool: "toggle_data_saver_mode", heardAs: new RegExp(`${change}[^.]{0,100}data saver`) },
  { tool: "check_data_restriction_status", heardAs: /check[^.]{0,100}(data saver|data restriction)/ },
  { tool: "toggle_roaming", heardAs: new RegExp(`${change}[^.]{0,100}roaming`) },
  { tool: "toggle_data", heardAs: new RegExp(`${change}[^.]{0,100}(mobile|cellular) data`) },
  { tool: "check_apn_settings", heardAs: /check[^.]{0,100}apn/ },
  { tool: "reset_apn_settings", heardAs: /reset[^.]{0,100}apn/ },
  { tool: "check_wifi_calling_status", heardAs: /check[^.]{0,100}wi-?fi calling/ },
  { tool: "toggle_wifi_calling", heardAs: new RegExp(`${change}[^.]{0,100}wi-?fi calling`) },
  { tool: "check_wifi_status", heardAs: /check[^.]{0,100}wi-?fi(?! calling)/ },
  { tool: "toggle_wifi", heardAs: new RegExp(`${change}[^.]{0,100}wi-?fi(?! calling)`) },
  { tool: "check_vpn_status", heardAs: /check[^.]{0,100}vpn/ },
  { tool: "disconnect_vpn", heardAs: /(disconnect|turn off|disable)[^.]{0,100}vpn/ },
  { tool: "check_installed_apps", heardAs: /(which|what|installed) apps/ },
  {
    tool: "check_app_permissions",
    heardAs: /check[^.]{0,100}permission/,
    given: (text) => ({ app_name: appIn(text) }),
  },
  {
    tool: "grant_app_permission",
    heardAs: /(grant|give|allow)[^.]{0,100}permission/,
    given: (text) => {
      const permission = permissions.find((known) => text.includes(known));
      return permission === undefined ? null : { app_name: appIn(text), permission };
    },
  },
  { tool: "can_send_mms", heardAs: /(send|try)[^.]{0,100}(mms|picture message)/ },
  { tool: "run_speed_test", heardAs: /speed test/ },
  { tool: "check_payment_request", heardAs: /check[^.]{0,100}payment request/ },
  { tool: "make_payment", heardAs: /(make|accept|complete)[^.]{0,100}payment|pay (the|your) bill/ },
  { tool: "reboot_device", heardAs: /re-?boot|restart/ },
];

/** Tool and result that show that the phone works, by the reason for the call. */
const goals = [
  { about: /mms|picture/i, tool: "can_send_mms", reached: /can send/ },
  { about: /mobile data|internet/i, tool: "run_speed_test", reached: /Excellent/ },
  { about: /service|call/i, tool: "check_status_bar", reached: /^(?!.*(No Signal|Airplane)).*$/s },
] as const;

/** Number of the agent's utterances without progress before the customer hangs up. */
const patience = 6;

/**
 * Customers of `tau2-bench/telecom`. `create` throws a `ConfigurationError` for a task of another
 * domain.
 */
export function telecomRuleUser(): UserSource {
  const make = (task: Task): RuleUser => {
    if (/^tau2-bench\/telecom(-workflow)?$/.test(task.environment)) return new RuleUser(task);
    throw new ConfigurationError(
      `Cannot run task "${task.id}" with user "rules": its rules are those of tau2-bench/telecom; choose another user.`,
    );
  };
  return {
    name: "rules",
    create: make,
    resume: (task, { lines: spoken }) => {
      const user = make(task);
      // The user's lines follow from what it hears, so it hears everything again.
      for (const { utterance: heard, results } of spoken) user.next(results ?? heard);
      return user;
    },
  };
}

class RuleUser implements UserSimulator {
  readonly #reason: string;
  readonly #known: string;
  readonly #goal: (typeof goals)[number];
  /** Calls still to be made, and the output of the earlier ones. */
  #calls: { readonly name: string; readonly arguments: JsonObject }[] = [];
  #shown: string[] = [];
  #isReached = false;
  #idle = 0;
  #count = 0;

  constructor({ instruction }: Task) {
    const text = instruction ?? "";
    this.#reason = sectionOf(text, "Reason for call") ?? "My phone does not work.";
    this.#known = sectionOf(text, "Known info") ?? "";
    this.#goal = goals.find(({ about }) => about.test(this.#reason)) ?? goals[2];
  }

  async open({ side = null }: UserCallOptions = {}): Promise<UserLine> {
    requireTools(side);
    return this.next(null);
  }

  async reply(utterance: string): Promise<UserLine> {
    return this.next(utterance);
  }

  async observe(results: readonly ToolResult[]): Promise<UserLine> {
    return this.next(results);
  }

  /** The next line; the same input gives the same line. */
  next(heard: string | readonly ToolResult[] | null): UserLine {
    if (heard === null) return words(`${this.#reason} ${this.#known}`.trim());
    if (typeof heard !== "string") return this.#afterCalls(heard);
    const text = heard.toLowerCase();
    if (text.includes("transfer")) return { type: "hang-up", text: "###TRANSFER###", usage: freeUsage };
    const requested = requestsIn(text);
    if (requested.length > 0) {
      this.#idle = 0;
      this.#shown = [];
      // The check whether the phone works now comes last.
      const check = { name: this.#goal.tool, arguments: new Map() };
      this.#calls = requested.some(({ name }) => name === check.name) ? requested : [...requested, check];
      return this.#callNext();
    }
    if (++this.#idle > patience) return { type: "hang-up", text: stopToken, usage: freeUsage };
    if (/phone number|your name|customer id|date of birth|who am i/.test(text)) return words(this.#known);
    return words(text.includes("?") ? "Yes, please." : "All right. What should I do now?");
  }

  #afterCalls(results: readonly ToolResult[]): UserLine {
    const shown = results.map(({ text }) => text).join("\n");
    this.#shown.push(shown);
    if (this.#calls.length > 0) return this.#callNext();
    this.#isReached = this.#goal.reached.test(shown);
    if (this.#isReached) return { type: "hang-up", text: `It works now, thank you. ${stopToken}`, usage: freeUsage };
    return words(`I did that. My phone says:\n${this.#shown.join("\n")}`);
  }

  #callNext(): UserLine {
    const next = this.#calls.shift()!;
    return { type: "calls", text: "", usage: freeUsage, calls: [{ id: `user_${this.#count++}`, ...next }] };
  }
}

const words = (text: string): UserLine => ({ type: "utterance", text, usage: freeUsage });

const longestFirst = requests.map(({ tool }) => tool).sort((left, right) => right.length - left.length);

function requestsIn(text: string): { readonly name: string; readonly arguments: JsonObject }[] {
  const named = new Set<string>();
  let rest = text;
  // A tool's name may be the beginning of another one.
  for (const tool of longestFirst) {
    const without = rest.replaceAll(tool, ".").replaceAll(tool.replaceAll("_", " "), ".");
    if (without !== rest) named.add(tool);
    rest = without;
  }
  return requests.flatMap(({ tool, heardAs, given }) => {
    if (!named.has(tool) && !heardAs.test(rest)) return [];
    const args = given === undefined ? {} : given(text);
    return args === null ? [] : [{ name: tool, arguments: new Map(Object.entries(args)) }];
  });
}

/**
 * The indented lines below a heading of the scenario, up to the next heading or the end; `null` if
 * there are none.
 */
function sectionOf(scenario: string, heading: string): string | null {
  const lines = scenario.split("\n");
  const isHeading = (at: number): boolean => at < lines.length - 1 && /^\t*[A-Z][a-z ]+:$/.test(lines[at]!);
  const isEnd = (at: number): boolean => at === lines.length || (at === lines.length - 1 && lines[at] === "");
  const start = lines.findIndex((line, at) => line.replace(/^\t*/, "") === `${heading}:` && at + 1 < lines.length) + 1;
  if (start === 0) return null;
  let end = start;
  while (end < lines.length && lines[end]!.startsWith("\t") && (end === start || !isHeading(end))) end++;
  if (end === start || !(isEnd(end) || isHeading(end))) return null;
  return lines.slice(start, end).join("\n").replaceAll("\t", "").replaceAll(/\s+/g, " ").trim();
}

function requireTools(side: UserSide | null): void {
  if (side !== null && side.tools.length > 0) return;
  throw new ConfigurationError('Cannot run user "rules": the environment gives it no tools; choose another user.');
}
