// Template variables that clients set, with each of the three settings.

import { expect, test } from "vitest";

import { createReadableTokenizer } from "../tokenizers/index.ts";
import { chooseRenderer } from "../renderers/index.ts";
import { openWorld, post } from "./gateway-world.test-helper.ts";

const tokenizer = createReadableTokenizer();
const chatTemplate =
  "{% if reasoning_effort %}{{ 'Effort: ' + reasoning_effort + '\n' }}{% endif %}" +
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const renderer = chooseRenderer({ tokenizer, chatTemplate, toolCallParser: "qwen25" });
const path = "/v1/chat/completions";
const question = [{ role: "user", content: "a" }];

test("are counted by default, and the prompt is the run's", async () => {
  const world = await openWorld(() => "fine", { renderer });
  const { status } = await post(world.gateway, path, { model: "m", messages: question, reasoning_effort: "high" });
  expect(status).toBe(200);
  expect(tokenizer.decode(world.sampled[0]!.prompt)).not.toContain("Effort");
  expect(world.gateway.sessions[0]!.counters.ignoredFields).toEqual({ reasoning_effort: 1 });
  await world.close();
});

test("reach the template where they are obeyed; what it does not read is counted", async () => {
  const world = await openWorld(() => "fine", { renderer, clientTemplate: "obey" });
  const ask = (fields: object, messages: readonly object[] = question) =>
    post(world.gateway, path, { model: "m", messages, ...fields });
  expect((await ask({ chat_template_kwargs: { reasoning_effort: "low", mood: 1 } })).status).toBe(200);
  expect(tokenizer.decode(world.sampled[0]!.prompt)).toMatch(/^Effort: low\n/);
  expect(world.gateway.sessions[0]!.counters.ignoredFields).toEqual({ mood: 1 });
  const longer = [...question, { role: "assistant", content: "fine" }, { role: "user", content: "b" }];
  await ask({ reasoning_effort: "low" }, longer);
  const [first, second] = world.sampled;
  // The same variables continue the record; other variables make a different prompt.
  expect([...second!.prompt].slice(0, first!.prompt.length)).toEqual([...first!.prompt]);
  await ask({ reasoning_effort: "high" }, longer);
  expect(tokenizer.decode(world.sampled[2]!.prompt)).toMatch(/^Effort: high\n/);
  await ask({}, longer);
  expect(tokenizer.decode(world.sampled[3]!.prompt)).not.toContain("Effort");
  await world.close();
});

test("keep every name, at every depth", async () => {
  const shows = chooseRenderer({
    tokenizer,
    chatTemplate: `{% if about %}{{ about | tojson }}{% endif %}${chatTemplate}`,
    toolCallParser: "qwen25",
  });
  const world = await openWorld(() => "fine", { renderer: shows, clientTemplate: "obey" });
  const about = '{"__proto__": {"a": 1}, "b": [{"__proto__": null}], "constructor": 2}';
  const body = `{"model": "m", "messages": ${JSON.stringify(question)}, "chat_template_kwargs": {"about": ${about}, "__proto__": 1}}`;
  expect((await post(world.gateway, path, JSON.parse(body) as Record<string, unknown>)).status).toBe(200);
  expect(tokenizer.decode(world.sampled[0]!.prompt)).toContain(about);
  expect(Object.entries(world.gateway.sessions[0]!.counters.ignoredFields)).toEqual([["__proto__", 1]]);
  expect(({} as { a?: number }).a).toBe(undefined);
  await world.close();
});

test("are refused where the run says so, and a value of another shape always", async () => {
  const world = await openWorld(() => "fine", { renderer, clientTemplate: "refuse" });
  const ask = (fields: object) => post(world.gateway, path, { model: "m", messages: question, ...fields });
  const { status, json } = await ask({ reasoning_effort: "high" });
  expect([status, (json["error"] as { readonly param: string }).param]).toEqual([400, "reasoning_effort"]);
  expect((await ask({ chat_template_kwargs: {} })).status).toBe(200);
  expect((await ask({ chat_template_kwargs: "low" })).status).toBe(400);
  await world.close();
});
