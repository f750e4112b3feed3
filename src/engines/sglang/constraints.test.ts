// Constraints as SGLang takes them, and a reply to one as SGLang 0.5.23 wrote it: the second token
// was the only allowed one, and excluded ids have the lowest float as their logprob.

import { expect, test } from "vitest";
import { request } from "../../http/engine-calls.test-helper.ts";
import { engineOf } from "./sglang.test-helper.ts";

const reply = {
  text: "b",
  output_ids: [98, 1529],
  meta_info: {
    id: "0b88d2fa1cec4f128e870f378e0c50a3",
    finish_reason: { type: "stop", matched: 1529 },
    prompt_tokens: 3,
    weight_version: "w0",
    output_token_logprobs: [
      [-3.679767370223999, 98, null],
      [0.0, 1529, null],
    ],
    output_top_logprobs: [
      [
        [-0.025552500039339066, 97, null],
        [-3.4028234663852886e38, 1, null],
      ],
      [
        [0.0, 1529, null],
        [-3.4028234663852886e38, 1, null],
      ],
    ],
    completion_tokens: 2,
    cached_tokens: 0,
  },
};

test.each([
  [{ type: "json-schema", schema: '{"type":"object"}' }, { json_schema: '{"type":"object"}' }],
  [{ type: "regex", pattern: "[ab]" }, { regex: "[ab]" }],
  [{ type: "ebnf", grammar: 'root ::= "a"' }, { ebnf: 'root ::= "a"' }],
  [
    { type: "tool-call", calls: [{ type: "literal", text: "a" }] },
    { structural_tag: '{"type":"structural_tag","format":{"type":"const_string","value":"a"}}' },
  ],
] as const)("a constraint is one parameter of SGLang: %o", async (text, expected) => {
  const sent: Record<string, unknown>[] = [];
  const engine = engineOf(async (asked) => {
    // Not a router: a router would drop some of the parameters.
    if (!asked.url.endsWith("/generate")) return new Response("{}", { status: 404 });
    const { sampling_params } = (await asked.json()) as { readonly sampling_params: Record<string, unknown> };
    sent.push(sampling_params);
    return Response.json(reply);
  });
  expect(engine.constraints).toContain(text.type);
  const prompt = { prompt: [7, 8, 9], stopTokenIds: [1529] };
  const result = await engine.sample({ ...request(prompt), constraint: { text, reasoning: null } });
  expect(sent[0]).toMatchObject(expected);
  expect([...result.sampledTokens]).toEqual([98, 1529]);
  expect([...result.logprobs!]).toEqual([Math.fround(-3.679767370223999), 0]);
  await engine.sample(request(prompt));
  expect(Object.keys(sent[1]!)).not.toContain(Object.keys(expected)[0]);
});
