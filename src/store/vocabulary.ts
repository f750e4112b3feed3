// The members of the core's closed unions as lists, for reading records. The compiler holds each list complete: a member
// added to a union and missing here is an error.

import type {
  ActionProblemCode,
  Boundary,
  Episode,
  Outcome,
  ParseProblem,
  StopReason,
  TemplateDeviation,
} from "../core/index.ts";

function membersOf<T extends string>(members: Readonly<Record<T, true>>): readonly T[] {
  // `Object.keys` forgets the type of the keys.
  return Object.keys(members) as T[];
}

export const outcomes = membersOf<Outcome>({ completed: true, truncated: true, aborted: true, failed: true });

export const stopReasons = membersOf<StopReason>({
  tool_ended: true,
  user_hung_up: true,
  max_turns: true,
  max_tokens: true,
  context_length: true,
  bad_action: true,
  bad_action_aborted: true,
  engine_abort: true,
  cancelled: true,
  fault: true,
});

export const boundaries = membersOf<Boundary>({
  engine: true,
  renderer: true,
  parser: true,
  tool: true,
  environment: true,
  user: true,
  grader: true,
  gateway: true,
  queue: true,
  store: true,
});

export const historyPolicies = membersOf<Episode["historyPolicy"]>({
  "append-only": true,
  "keep-reasoning": true,
  branch: true,
  "no-tokens": true,
});

export const templateDeviations = membersOf<TemplateDeviation>({ "other-end-token": true });

export const parseProblemCodes = membersOf<ParseProblem["code"]>({
  "not-json": true,
  "not-an-object": true,
  "no-name": true,
  "unknown-tool": true,
  "unterminated-call": true,
  "spoofed-marker": true,
  repaired: true,
});

export const actionProblemCodes = membersOf<ActionProblemCode>({
  "not-json": true,
  "not-an-object": true,
  "unknown-tool": true,
  "schema-violation": true,
  "several-calls": true,
  "unterminated-call": true,
  "spoofed-marker": true,
  repaired: true,
  "cut-off": true,
  "no-call": true,
});
