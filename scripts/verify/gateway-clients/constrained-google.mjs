// @google/genai: a schema in both of its forms, any JSON, and forced functions, whole and streamed.
import assert from "node:assert/strict";
import { FunctionCallingConfigMode, GoogleGenAI, Type } from "@google/genai";

const client = new GoogleGenAI({
  apiKey: process.env["TRAINABLE_AGENTS_SESSION"] ?? "",
  httpOptions: { baseUrl: (process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "").replace(/\/v1$/, "") },
});
const right = { city: "Rome", degrees: 21, sky: "clear" };
const openApi = {
  type: Type.OBJECT,
  properties: {
    city: { type: Type.STRING },
    degrees: { type: Type.NUMBER },
    sky: { type: Type.STRING, enum: ["clear", "cloudy"] },
  },
  required: ["city", "degrees", "sky"],
};
const jsonSchema = {
  type: "object",
  properties: {
    city: { type: "string" },
    degrees: { type: "number" },
    sky: { type: "string", enum: ["clear", "cloudy"] },
  },
  required: ["city", "degrees", "sky"],
};
const responseMimeType = "application/json";
/** @param {string} contents @param {any} config */
const asking = (contents, config) => ({ model: "policy", contents, config });

for (const form of [{ responseSchema: openApi }, { responseJsonSchema: jsonSchema }]) {
  const { text = "" } = await client.models.generateContent(asking("parse", { responseMimeType, ...form }));
  assert.deepEqual(JSON.parse(text), right);
}
const [first, second] = ["get_weather", "get_time"];
const parameters = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] };
const tools = [{ functionDeclarations: [first, second].map((name) => ({ name, parameters })) }];
for (const allowedFunctionNames of [undefined, [second]]) {
  const mode = FunctionCallingConfigMode.ANY;
  const toolConfig = { functionCallingConfig: { mode, allowedFunctionNames } };
  const request = asking(`call ${allowedFunctionNames}`, { tools, toolConfig });
  const calls = [];
  for await (const { functionCalls = [] } of await client.models.generateContentStream(request))
    calls.push(...functionCalls);
  assert.deepEqual(
    calls.map(({ name, args }) => [name, args]),
    [[allowedFunctionNames === undefined ? first : second, { city: "Rome" }]],
  );
}
await assert.rejects(client.models.generateContent(asking("no", { candidateCount: 2 })), {
  name: "ApiError",
  status: 400,
  message: /INVALID_ARGUMENT/,
});
console.log("constrained: ok");
