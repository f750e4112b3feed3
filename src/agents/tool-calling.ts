// The strategy that most trained agents use: tools in the chat template's own form, one call or words a turn.

import type { AgentStrategy, Message } from "../core/index.ts";
import { judgeAction } from "./judge-action.ts";
import { createProblemPolicy, type ProblemPolicy } from "./problem-policy.ts";

export type ToolCallingOptions = {
  /** Changes to the default problem policy. */
  readonly problemPolicy?: Partial<ProblemPolicy>;
};

/** Throws a `ConfigurationError` when the problem policy does not fit. */
export function createToolCalling(options: ToolCallingOptions = {}): AgentStrategy {
  const policy = createProblemPolicy(options.problemPolicy);
  return {
    name: "tool-calling",
    open: ({ guidelines, tools, firstUtterance }) => ({
      messages: [
        { role: "system", content: guidelines },
        { role: "user", content: firstUtterance },
      ],
      tools,
    }),
    decide: (action, { tools, argumentErrors }) => judgeAction(action, { tools, argumentErrors, policy }),
    observe: (decision, observation): Message => {
      if (decision.type === "say") return { role: "user", content: observation };
      // Feedback speaks as a tool even where no call could be read. The user's voice stays the user's, so a policy never
      // learns that customers complain about JSON; and templates that strip thinking at each user turn keep it.
      const call = decision.type === "call" || decision.type === "observe" ? decision.call : null;
      const attempted = decision.problems.find(({ toolName }) => toolName !== null)?.toolName;
      return {
        role: "tool",
        content: observation,
        name: call?.name ?? attempted ?? "unknown",
        callId: call?.id ?? null,
      };
    },
  };
}
