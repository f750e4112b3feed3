import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { evaluate } from "../../api/evaluate.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { telecomExpertAction } from "./index.ts";

const folder = sharedFolder("tau2-bench");
const split = process.env["FULL"] === "1" ? "base" : "small";

const block = (role: string, body: string): string => `<|im_start|>${role}\n${body}<|im_end|>\n`;
const call = (name: string, given: string): string =>
  block("assistant", `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`);
const answer = (text: string): string => block("user", `<tool_response>\n${text}\n</tool_response>`);
const next = (...lines: readonly string[]): string =>
  telecomExpertAction(`${lines.join("")}<|im_start|>assistant\n`).text;

describe("telecomExpertAction()", () => {
  const opening = block("user", "No service. I am John Smith with phone number 555-123-2002.");
  const lookUp = call("get_customer_by_phone", '{"phone_number": "555-123-2002"}');

  test("it reads the conversation alone: asks for a number, looks up its owner, and the lines of that", () => {
    expect(next(block("user", "No service."))).toBe("What is your phone number?");
    expect(next(opening)).toContain('"get_customer_by_phone", "arguments": {"phone_number": "555-123-2002"}');
    // A failed call does not count as answered.
    expect(next(opening, lookUp, answer("Error: Customer not found"))).toContain("get_customer_by_phone");
    const customer = answer('{"customer_id": "C7", "line_ids": ["L1", "L2"]}');
    expect(next(opening, lookUp, customer)).toContain('{"id": "L1"}');
    const other = call("get_details_by_id", '{"id": "L1"}') + answer('{"line_id": "L1", "phone_number": "x"}');
    expect(next(opening, lookUp, customer, other)).toContain('{"id": "L2"}');
    const last = call("get_details_by_id", '{"id": "L2"}') + answer('{"line_id": "L2", "phone_number": "y"}');
    expect(next(opening, lookUp, customer, other, last)).toContain("transfer_to_human_agents");
  });

  test("any text is answered; noise decides how often it errs, by prompt and seed", () => {
    for (const prompt of ["", "<|im_start|>", "no markup", `${opening}${lookUp}${answer("[1, {")}<|im_start|>`]) {
      expect(telecomExpertAction(prompt).text).not.toBe("");
      expect(telecomExpertAction(prompt, { noise: 1 }).text).not.toBe(telecomExpertAction(prompt).text);
    }
    const prompt = `${opening}<|im_start|>assistant\n`;
    const drawn = Array.from({ length: 400 }, (_, seed) => telecomExpertAction(prompt, { noise: 0.25, seed }));
    expect(drawn).toEqual(Array.from({ length: 400 }, (_, seed) => telecomExpertAction(prompt, { noise: 0.25, seed })));
    const right = drawn.filter(({ probability }) => probability === 0.75).length;
    expect(right).toBeGreaterThan(260);
    expect(right).toBeLessThan(340);
    expect(() => telecomExpertAction("", { noise: 2 })).toThrow("noise is 2");
  });
});

test.skipIf(folder === null)(
  `it solves every task of ${split} with the customer who follows rules (skipped without ../shared/tau2-bench)`,
  async () => {
    const cwd = await mkdtemp(join(tmpdir(), "tau2-expert-"));
    const { evaluation } = await evaluate({
      env: "tau2-bench/telecom",
      data: folder!,
      split,
      user: "rules",
      engine: "expert",
      expertNoise: 0,
      trials: 1,
      cwd,
      out: "run",
      variables: {},
    });
    await rm(cwd, { recursive: true });
    expect(evaluation).toMatchObject({ episodes: split === "small" ? 20 : 114 });
    expect(evaluation.successes).toBe(evaluation.episodes);
  },
);
