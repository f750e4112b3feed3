// Rules that attribute a failure to a simulated user with tools: its calls, and its statements
// about them. Like the other rules, each reports a finding only if it can quote its evidence.

import { dumpJson } from "../python-semantics/json/index.ts";
import { isSameValue } from "../python-semantics/json/value.ts";
import {
  type Conversation,
  type ConversationStep,
  type Finding,
  isChange,
  plain,
  quote,
  type TaskFacts,
} from "./conversation.ts";

type UserCall = Extract<ConversationStep, { readonly type: "user-call" }>;

/** Finding of the first rule that applies; `null` if none does. */
export function findUserCallFault(conversation: Conversation, facts: TaskFacts): Finding | null {
  if (facts.userTools.length === 0) return null;
  return (
    findOtherArguments(conversation, facts) ??
    findClaimedCall(conversation, facts) ??
    findUnrequestedCall(conversation, facts) ??
    findMisreport(conversation)
  );
}

const isUserCall = (step: ConversationStep): step is UserCall => step.type === "user-call";

/**
 * The agent named the expected value, but the user called the expected tool only with another
 * value.
 */
function findOtherArguments(conversation: Conversation, { expectedUserCalls = [] }: TaskFacts): Finding | null {
  for (const { name, arguments: expected } of expectedUserCalls) {
    const made = conversation.filter(isUserCall).filter((call) => call.name === name);
    if (made.length === 0 || made.some((call) => isSameValue(call.arguments, expected))) continue;
    for (const call of made) {
      const request = conversation.slice(0, conversation.indexOf(call)).findLast(({ type }) => type === "agent");
      if (request?.type !== "agent") continue;
      const said = ` ${plain(request.text)} `;
      const names = (value: unknown): boolean => typeof value === "string" && said.includes(` ${plain(value)} `);
      const wrong = [...expected].find(([key, value]) => names(value) && !isSameValue(call.arguments.get(key), value));
      if (wrong === undefined || names(call.arguments.get(wrong[0]))) continue;
      return {
        rule: "other-arguments",
        evidence: `The user called ${name} ${dumpJson(call.arguments)} after it was asked: ${quote(request.text)}`,
      };
    }
  }
  return null;
}

/** Words in a tool's name that describe its topic. */
function topicOf(name: string): readonly string[] {
  const [, ...words] = name.split("_");
  return words.filter((word) => !["status", "settings", "card", "mode", "preference", "app"].includes(word));
}

/**
 * True for a sentence that requests an action on the tool's topic: by the tool's name, or in an
 * imperative.
 */
function asksForCall(text: string, name: string): boolean {
  const topic = topicOf(name);
  return text.split(/(?<=[.?!\n])\s*/).some((sentence) => {
    if (sentence.includes(name)) return true;
    const said = ` ${plain(sentence)} `;
    const isRequest =
      /\b(please|could you|can you|would you|try|turn|switch|toggle|reset|reseat|enable|disable|grant)\b/i;
    return topic.length > 0 && isRequest.test(sentence) && topic.every((word) => said.includes(` ${word}`));
  });
}

/**
 * The user claimed to have done what the agent requested, but had not called the tool that the
 * solution needs.
 */
function findClaimedCall(conversation: Conversation, { expectedUserCalls = [] }: TaskFacts): Finding | null {
  for (const { name } of expectedUserCalls) {
    if (!isChange(name) || conversation.some((step) => isUserCall(step) && step.name === name)) continue;
    for (const [at, step] of conversation.entries()) {
      if (step.type !== "agent" || !asksForCall(step.text, name)) continue;
      const answer = conversation[at + 1];
      const claims =
        /\b(done|i(?:'ve| have)(?: just| now)? (?:done|turned|switched|toggled|reset|reseated|set|enabled|disabled|changed|granted|disconnected|connected|rebooted|restarted))\b/i;
      if (answer?.type !== "user" || !claims.test(answer.text) || /\bnot\b|n't/i.test(answer.text)) continue;
      return {
        rule: "claimed-call",
        evidence: `The user was asked for what "${name}" does, never called it, and said: ${quote(answer.text)}`,
      };
    }
  }
  return null;
}

/**
 * The user changed something of its own accord that the solution does not change and that the agent
 * never mentioned.
 */
function findUnrequestedCall(conversation: Conversation, { expectedUserCalls = [] }: TaskFacts): Finding | null {
  const expected = new Set(expectedUserCalls.map(({ name }) => name));
  let said = " ";
  for (const step of conversation) {
    if (step.type === "agent") said += `${step.text} ${plain(step.text)} `;
    if (!isUserCall(step) || step.isError || !isChange(step.name) || expected.has(step.name)) continue;
    const topic = topicOf(step.name);
    if (topic.length === 0 || said.includes(step.name) || topic.some((word) => said.includes(` ${word}`))) continue;
    return {
      rule: "unrequested-call",
      evidence: `The user called ${step.name} ${dumpJson(step.arguments)}, which it had not been asked to do.`,
    };
  }
  return null;
}

/** Things that a result reports as on or off. */
const states =
  /\b([A-Z][\w-]{0,30}(?: [A-Za-z][\w-]{0,30}){0,3}?)(?: is(?: now| currently)?(?: turned)? |: )(ON|OFF)\b/g;

/**
 * The user reported that something is on although the last result of its own calls shows off, or
 * vice versa.
 */
function findMisreport(conversation: Conversation): Finding | null {
  const shown = new Map<string, "on" | "off">();
  for (const step of conversation) {
    if (isUserCall(step) && !step.isError) {
      for (const [, thing = "", state] of step.result.matchAll(states))
        shown.set(plain(thing), state === "ON" ? "on" : "off");
    }
    if (step.type !== "user") continue;
    for (const clause of step.text.split(/[.,;:!?\n]|\b(?:and|but)\b/)) {
      const said = ` ${plain(clause)} `;
      // A clause about the past, a wish, a condition or a negation is not a report.
      if (/ (was|were|before|not|isn|if|should|want|would|when|turn|toggle|switch) /.test(said)) continue;
      const claimed = [...said.matchAll(/ (on|off) /g)].map(([, state]) => state);
      if (claimed.length !== 1 || !/ (is|it s|shows|says|now) /.test(said)) continue;
      for (const [thing, state] of shown) {
        if (!said.includes(` ${thing} `) || claimed[0] === state) continue;
        return {
          rule: "misreported-result",
          evidence: `The user's own phone showed ${thing} ${state}, and it said: ${quote(step.text)}`,
        };
      }
    }
  }
  return null;
}
