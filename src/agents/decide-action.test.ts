import fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  type ActionProblemCode,
  type ParsedAction,
  type ParseProblem,
  type Tool,
  toolFromDefinition,
} from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createProblemPolicy, decideAction, type ProblemPolicy } from "./decide-action.ts";

const parameters = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const tools: readonly Tool[] = ["get_order", "cancel_order"].map((name) =>
  toolFromDefinition(fromPlain({ type: "function", function: { name, parameters } }) as JsonObject),
);

type Shape = { readonly calls?: readonly (readonly [name: string, argumentsText: string])[] } & Partial<ParsedAction>;

const actionWith = ({ calls = [], ...rest }: Shape): ParsedAction => ({
  text: "text",
  reasoning: null,
  content: "words",
  toolCalls: calls.map(([name, argumentsText], index) => ({ id: `call_0_${index}`, name, argumentsText })),
  problems: [],
  isTerminated: true,
  ...rest,
});

const judge = (shape: Shape, changes: Partial<ProblemPolicy> = {}, argumentErrors: "environment" | "loop" = "loop") =>
  decideAction(actionWith(shape), { tools, argumentErrors, policy: createProblemPolicy(changes) });
const codes = (decision: { readonly problems: readonly { readonly code: ActionProblemCode }[] }) =>
  decision.problems.map(({ code }) => code);
const problem = (code: ParseProblem["code"], toolName: string | null = null): ParseProblem => ({
  code, text: "…", toolName, detail: "Something is wrong." }); // prettier-ignore

const good = ["get_order", '{"id": "#W1"}'] as const;

describe("decideAction() by default", () => {
  test("carries out a call", () => {
    expect(judge({ calls: [good] })).toEqual({
      type: "call",
      call: { id: "call_0_0", name: "get_order", argumentsText: '{"id": "#W1"}' },
      arguments: new Map([["id", "#W1"]]),
      problems: [],
    });
  });

  test("takes words as words, without a problem", () => {
    expect(judge({})).toEqual({ type: "say", content: "words", problems: [] });
  });

  test("carries out the first of several calls, and counts the problem", () => {
    const decision = judge({ calls: [good, ["cancel_order", '{"id": "#W2"}']] });
    expect(decision).toMatchObject({ type: "call", call: { id: "call_0_0" } });
    expect(codes(decision)).toEqual(["several-calls"]);
  });

  test.each(["5", "[]", '"{}"', "null", "true", "0.5"])(
    "says the words beside a call whose arguments are %s",
    (text) => {
      const decision = judge({ calls: [["get_order", text]] });
      expect(decision).toMatchObject({ type: "say", content: "words" });
      expect(codes(decision)).toEqual(["not-an-object"]);
    },
  );

  test("observes arguments that are not JSON, where a parser lets them through", () => {
    const decision = judge({ calls: [["get_order", "{'id': 1}"]] });
    expect(decision).toMatchObject({ type: "observe", call: { id: "call_0_0" } });
    expect(codes(decision)).toEqual(["not-json"]);
  });

  test("observes a schema violation, naming tool and place; an environment that words its own errors gets the call", () => {
    const decision = judge({ calls: [["get_order", "{}"]] });
    expect(decision).toMatchObject({
      type: "observe",
      feedback: 'Error: the call of "get_order" was not carried out. "id" is missing.',
    });
    const forwarded = judge({ calls: [["get_order", "{}"]] }, {}, "environment");
    expect(forwarded).toMatchObject({ type: "call", arguments: new Map() });
    expect(codes(forwarded)).toEqual(["schema-violation"]);
  });

  test.each([
    ["not-json", "not-json"],
    ["not-an-object", "not-json"],
    ["no-name", "unknown-tool"],
    ["unknown-tool", "unknown-tool"],
    ["unterminated-call", "unterminated-call"],
    ["spoofed-marker", "spoofed-marker"],
  ] as const)("observes what a parser found: %s counts as %s", (found, code) => {
    const decision = judge({ problems: [problem(found, "get_order")] });
    expect(decision).toMatchObject({ type: "observe", call: null });
    expect(codes(decision)).toEqual([code]);
  });

  test.each(["", " \n"])("carries out a call without arguments (%j), unless it was cut short", (text) => {
    const call = ["get_order", text] as const;
    expect(judge({ calls: [call] })).toMatchObject({ type: "observe", problems: [{ code: "schema-violation" }] });
    expect(judge({ calls: [call, call] }).problems.map(({ code }) => code)).not.toContain("not-json");
    const cut = judge({ calls: [call], problems: [problem("unterminated-call", "get_order")] });
    expect(codes(cut)).toContain("not-json");
    const other = judge({ calls: [call], problems: [problem("unterminated-call", "another")] });
    expect(codes(other)).not.toContain("not-json");
  });

  test("carries out a good call beside a broken one, and counts the broken one", () => {
    const decision = judge({ calls: [good], problems: [problem("not-json")] });
    expect(decision.type).toBe("call");
    expect(codes(decision)).toEqual(["not-json"]);
  });

  test("observes an action that was cut off, once; a call that stands whole in it is not carried out", () => {
    const cut = judge({ isTerminated: false, problems: [problem("unterminated-call", "get_order")] });
    expect(cut.type).toBe("observe");
    expect(cut.problems).toMatchObject([{ code: "cut-off", toolName: "get_order" }]);
    const whole = judge({ isTerminated: false, calls: [good] });
    expect(whole).toMatchObject({ type: "observe", call: { name: "get_order" } });
    expect(whole.problems).toMatchObject([{ code: "cut-off", toolName: "get_order" }]);
    expect(whole.type === "observe" && whole.feedback).toMatch(
      /nothing was carried out.*cut off because it grew too long/,
    );
  });
});

describe("decideAction() with another policy", () => {
  test.each([
    ["end", "end"],
    ["abort", "abort"],
    ["utterance", "say"],
  ] as const)("%s leads to %s for every problem", (disposition, type) => {
    expect(judge({ problems: [problem("not-json")] }, { "not-json": disposition }).type).toBe(type);
    expect(judge({ isTerminated: false }, { "cut-off": disposition }).type).toBe(type);
    expect(judge({ calls: [good, good] }, { "several-calls": disposition }).type).toBe(type);
    expect(judge({ calls: [["get_order", "{}"]] }, { "schema-violation": disposition }).type).toBe(type);
    expect(judge({ calls: [["fly", "{}"]] }, { "unknown-tool": disposition }).type).toBe(type);
  });

  test("end and abort hold for problems beside a good call, too; abort is the stronger", () => {
    const shape = { calls: [good], problems: [problem("not-json"), problem("unterminated-call")] };
    expect(judge(shape, { "not-json": "end" }).type).toBe("end");
    expect(judge(shape, { "not-json": "end", "unterminated-call": "abort" }).type).toBe("abort");
    expect(judge(shape, { "not-json": "utterance" }).type).toBe("call");
  });

  test("words without a call are a problem when the policy says so", () => {
    const decision = judge({}, { "no-call": "observe" });
    expect(decision).toMatchObject({ type: "observe", call: null });
    expect(codes(decision)).toEqual(["no-call"]);
  });

  test("several calls are observed when the policy says so", () => {
    expect(judge({ calls: [good, good] }, { "several-calls": "observe" })).toMatchObject({
      type: "observe",
      feedback: "Error: nothing was carried out. 2 tools were called at once. Call one tool at a time.",
    });
  });

  test("an unknown tool that the renderer let through is forwarded and counted once", () => {
    const shape = { calls: [["fly", '{"to": "Rome"}']] as const, problems: [problem("unknown-tool", "fly")] };
    const decision = judge(shape, { "unknown-tool": "forward" });
    expect(decision).toMatchObject({ type: "call", call: { name: "fly" } });
    expect(codes(decision)).toEqual(["unknown-tool"]);
    expect(judge({ problems: shape.problems }, { "unknown-tool": "forward" }).type).toBe("observe");
  });
});

test("decideAction() never throws, and what it carries out is a call of the action", () => {
  const codeOf = fc.constantFrom<ParseProblem["code"]>("not-json", "not-an-object", "no-name", "unknown-tool", "unterminated-call", "spoofed-marker"); // prettier-ignore
  const shapes = fc.record({
    calls: fc.array(fc.tuple(fc.constantFrom("get_order", "fly", ""), fc.oneof(fc.json(), fc.string())), {
      maxLength: 3,
    }),
    problems: fc.array(
      fc.tuple(codeOf, fc.constantFrom(null, "fly")).map(([code, name]) => problem(code, name)),
      { maxLength: 3 },
    ),
    isTerminated: fc.boolean(),
  });
  fc.assert(
    fc.property(shapes, fc.constantFrom<"environment" | "loop">("environment", "loop"), (shape, argumentErrors) => {
      const decision = judge(shape, {}, argumentErrors);
      if (decision.type === "call") expect(decision.call).toEqual(actionWith(shape).toolCalls[0]);
      if (decision.type === "observe") expect(decision.feedback).toMatch(/^Error: /);
    }),
    { seed: 4, numRuns: 2000 },
  );
});

test("decideAction() passes on a call of no tool where the environment answers those, and nothing that is not a call", () => {
  const own = { tools, argumentErrors: "loop", unknownTools: "environment", policy: createProblemPolicy({}) } as const;
  const decide = (shape: Shape, calls: "one" | "several" = "one") => decideAction(actionWith(shape), { ...own, calls });
  const problems = [{ code: "unknown-tool", toolName: "fly" }];
  expect(decide({ calls: [["fly", "{}"]] })).toMatchObject({ type: "call", call: { name: "fly" }, problems });
  expect(decide({ calls: [["fly", "{}"], good] }, "several")).toMatchObject({
    calls: [
      { feedback: null, problems },
      { feedback: null, problems: [] },
    ],
  });
  expect(decide({ calls: [["fly", "["]] })).toMatchObject({ type: "observe", problems: [{ code: "not-json" }] });
  expect(decide({ calls: [], problems: [problem("no-name", null)] })).toMatchObject({ type: "observe" });
});

test("decideAction() carries out a repaired call and counts the repair; only a policy that says so ends on it", () => {
  const shape = { calls: [good], problems: [problem("repaired", "get_order")] };
  expect(judge(shape)).toMatchObject({ type: "call", problems: [{ code: "repaired", toolName: "get_order" }] });
  expect(judge(shape, { repaired: "end" })).toMatchObject({ type: "end", problems: [{ code: "repaired" }] });
  expect(() => createProblemPolicy({ repaired: "utterance" })).toThrow("forward, end, abort");
});
