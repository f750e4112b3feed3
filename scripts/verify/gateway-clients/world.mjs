// Shared code of all client programs: the tools and the user of one bookshop task, over HTTP. The
// program acts as the agent; its arguments are the address of its world, and "whole" or "streamed".

const [, , address = "", mode = "whole"] = process.argv;

export const isStreamed = mode === "streamed";
export const baseURL = process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "";
export const apiKey = process.env["TRAINABLE_AGENTS_SESSION"] ?? "";

/**
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<any>}
 */
async function post(path, body) {
  const answer = await fetch(`${address}${path}`, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/** @returns {Promise<{ guidelines: string, utterance: string, tools: { name: string, description: string, parameters: object }[] }>} */
export const start = () => post("/start", {});

/**
 * @param {string} name
 * @param {unknown} input An object, or its JSON text.
 * @returns {Promise<string>}
 */
export const callTool = async (name, input) =>
  (await post("/call", { name, arguments: typeof input === "string" ? JSON.parse(input) : input })).text;

/**
 * @param {string} text
 * @returns {Promise<string | null>} The user's message; `null` when the user has hung up.
 */
export const say = async (text) => (await post("/say", { text })).text;

/**
 * Talks until the user hangs up. `turn` receives the new message for the agent, calls tools, and
 * resolves with the agent's reply.
 *
 * @param {(utterance: string) => Promise<string>} turn
 * @param {string} first
 */
export async function converse(turn, first) {
  for (let utterance = /** @type {string | null} */ (first); utterance !== null;)
    utterance = await say(await turn(utterance));
}
