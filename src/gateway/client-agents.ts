// The ids by which agent programs tell their agents apart in the headers of their requests, recorded
// from Claude Code 2.1.197, Codex 0.171.0 and opencode 1.18.33. Programs of one's own send
// `x-agent-id` and `x-parent-agent-id`.

import type { RequestHeaders } from "./request.ts";

/** `parent`: the agent that started this one; `null` if nothing did, or it is not known. */
export type ClientAgent = { readonly agent: string; readonly parent: string | null };

/** Reads one header. */
type Reader = (name: string) => string | null;

const harnesses: readonly ((read: Reader) => ClientAgent | null)[] = [
  (read) => agentOf(read("x-agent-id"), read("x-parent-agent-id")),
  (read) => {
    const session = read("x-claude-code-session-id");
    const agent = read("x-claude-code-agent-id");
    return agent === null ? agentOf(session) : agentOf(agent, read("x-claude-code-parent-agent-id") ?? session);
  },
  // Other programs send these headers with meanings of their own.
  (read) => (isFrom("codex", read) ? agentOf(read("thread-id"), read("x-codex-parent-thread-id")) : null),
  (read) => (isFrom("opencode", read) ? agentOf(read("x-session-id"), read("x-parent-session-id")) : null),
];

/** The agent that sent a request; `null` if its program does not say. */
export function clientAgentOf(headers: RequestHeaders): ClientAgent | null {
  const read: Reader = (name) => {
    const value = headers[name];
    return typeof value === "string" ? value : null;
  };
  for (const harness of harnesses) {
    const found = harness(read);
    if (found !== null) return found;
  }
  return null;
}

function isFrom(program: string, read: Reader): boolean {
  return read("user-agent")?.startsWith(program) === true;
}

/** An id that is too long, or not plain text, counts as none. */
function agentOf(agent: string | null, parent: string | null = null): ClientAgent | null {
  const isId = (text: string | null): text is string => text !== null && /^[\w.:/-]{1,128}$/.test(text);
  return isId(agent) ? { agent, parent: isId(parent) && parent !== agent ? parent : null } : null;
}
