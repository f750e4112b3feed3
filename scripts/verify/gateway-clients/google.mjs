// @google/genai: generateContent and generateContentStream with a history of its own, and the
// chats that keep one. Both count the tokens of their first request.
import assert from "node:assert/strict";
import { GoogleGenAI } from "@google/genai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const [, , , , way = "models"] = process.argv;
const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: baseURL.replace(/\/v1$/, "") } });
const { guidelines, tools, utterance } = await start();
const declared = tools.map(({ name, description, parameters }) => ({
  name,
  description,
  parametersJsonSchema: parameters,
}));
const model = "policy";
const config = { systemInstruction: guidelines, tools: [{ functionDeclarations: declared }] };
const chat = client.chats.create({ model, config });
/** @type {any[]} */
const contents = [];

/**
 * Sends parts of the user, and resolves with the parts of the answer.
 *
 * @param {any[]} parts
 * @returns {Promise<any[]>}
 */
async function send(parts) {
  if (way === "chat") {
    if (!isStreamed) return partsOf([await chat.sendMessage({ message: parts })]);
    return partsOf(await read(await chat.sendMessageStream({ message: parts })));
  }
  contents.push({ role: "user", parts });
  const request = { model, contents, config };
  const answers = isStreamed
    ? await read(await client.models.generateContentStream(request))
    : [await client.models.generateContent(request)];
  const given = partsOf(answers);
  contents.push({ role: "model", parts: given });
  return given;
}

/** @param {AsyncIterable<any>} stream */
async function read(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  assert.equal(all.at(-1).candidates[0].finishReason, "STOP");
  assert.ok(all.at(-1).usageMetadata.totalTokenCount > 0);
  return all;
}

/** @param {readonly any[]} answers */
const partsOf = (answers) => answers.flatMap(({ candidates }) => candidates[0].content.parts);

const { totalTokens } = await client.models.countTokens({ model, contents: utterance });
assert.ok((totalTokens ?? 0) > 0);
await converse(async (heard) => {
  let parts = await send([{ text: heard }]);
  for (;;) {
    const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
    if (calls.length === 0) return parts.map(({ text = "" }) => text).join("");
    const results = [];
    for (const { id, name, args } of calls)
      results.push({ functionResponse: { id, name, response: { output: await callTool(name, args) } } });
    parts = await send(results);
  }
}, utterance);
