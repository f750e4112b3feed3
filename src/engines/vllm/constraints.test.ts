// Constraints as vLLM takes them, and a reply to one as vLLM 0.32.0 wrote it: the second token was
// the only allowed one, and excluded ids have the logprob -9999.

import { expect, test } from "vitest";
import { request } from "../../http/engine-calls.test-helper.ts";
import { engineOf } from "./vllm.test-helper.ts";

const reply = {
  request_id: "generate-tokens-988f64c823d19f66",
  usage: { prompt_tokens: 3, total_tokens: 5, completion_tokens: 2, prompt_tokens_details: null },
  choices: [
    {
      index: 0,
      finish_reason: "stop",
      stop_reason: null,
      token_ids: [97, 1529],
      logprobs: {
        content: [
          {
            token_id: 97,
            logprob: -0.025552619248628616,
            rank: 1,
            top_logprobs: [{ token_id: 1, logprob: -9999, rank: 3 }],
          },
          { token_id: 1529, logprob: 0, rank: 1, top_logprobs: [{ token_id: 1, logprob: -9999, rank: 2 }] },
        ],
      },
    },
  ],
};

test.each([
  [{ type: "json-schema", schema: '{"type":"object"}' }, { json: { type: "object" } }],
  [{ type: "regex", pattern: "[ab]" }, { regex: "[ab]" }],
  [{ type: "ebnf", grammar: 'root ::= "a"' }, { grammar: 'root ::= "a"' }],
  [
    { type: "tool-call", calls: [{ type: "literal", text: "a" }] },
    { structural_tag: '{"type":"structural_tag","format":{"type":"const_string","value":"a"}}' },
  ],
] as const)("a constraint is one structured output of vLLM: %o", async (text, expected) => {
  const sent: Record<string, unknown>[] = [];
  const warnings: string[] = [];
  const engine = engineOf(
    async (asked) => {
      const { sampling_params } = (await asked.json()) as { readonly sampling_params: Record<string, unknown> };
      sent.push(sampling_params);
      return Response.json(reply);
    },
    { onWarning: ({ message }) => warnings.push(message) },
  );
  expect(engine.constraints).toContain(text.type);
  const prompt = { prompt: [7, 8, 9], stopTokenIds: [1529] };
  const result = await engine.sample({ ...request(prompt), constraint: { text, reasoning: null } });
  expect(sent[0]).toMatchObject({ structured_outputs: expected });
  expect([...result.logprobs!]).toEqual([Math.fround(-0.025552619248628616), 0]);
  // Raw logprobs of vLLM are those after its grammar, so nothing is distorted.
  expect(warnings).toEqual([]);
  await engine.sample(request(prompt));
  expect(Object.keys(sent[1]!)).not.toContain("structured_outputs");
});
