// Retail episodes whose every reply is prepared: the gold actions of the test split, said by a server that knows them. Shared
// by the benchmarks of the loop.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

import { createToolCalling } from "../../dist/agents/index.js";
import { tauBenchSource } from "../../dist/environments/tau-bench/index.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { loadTokenizer } from "../../dist/tokenizers/index.js";
import { scriptedUser } from "../../dist/users/index.js";

const shared = fileURLToPath(new URL("../../../shared/", import.meta.url));
const stop = "###STOP###";

/** Tokenizer, renderer and environment of the real thing; says what is missing when ../shared is not there. */
export async function loadRetail() {
  try {
    const tokenizer = await loadTokenizer(join(shared, "models", "qwen2.5-instruct"));
    const environment = await tauBenchSource({ domain: "retail", folder: join(shared, "tau-bench") });
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const tasks = JSON.parse(await readFile(join(shared, "tau-bench", "retail", "tasks_test.json"), "utf8"));
    return { tokenizer, environment, renderer, tasks, strategy: createToolCalling() };
  } catch (error) {
    process.stderr.write(`Cannot run this benchmark: it replays τ-bench retail from ../shared (${error.message}).\n`);
    return process.exit(2);
  }
}

export function callText(name, args) {
  return `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
}

/** The gold actions of a task as replies, a greeting before and a closing line behind. */
export function goldReplies(task) {
  const calls = task.actions.filter(({ name }) => name !== "transfer_to_human_agents");
  return ["Hello! How can I help you?", ...calls.map(({ name, kwargs }) => callText(name, kwargs)), "All done."];
}

/** Says the same lines in every episode: opens, answers the greeting, hangs up. */
export const shortUser = {
  name: "scripted",
  create: () => scriptedUser(["Hi, it is about my order.", "Please go on.", stop]),
};

/** The body that a server would send for a reply. */
export function cannedReply(text, tokenizer) {
  const ids = [...tokenizer.encode(`${text}<|im_end|>`)];
  return JSON.stringify({
    text: `${text}<|im_end|>`,
    output_ids: ids,
    meta_info: {
      id: "bench",
      finish_reason: { type: "stop", matched: ids.at(-1) },
      weight_version: "1",
      completion_tokens: ids.length,
      cached_tokens: 0,
      output_token_logprobs: ids.map((id, place) => [-0.0123456789 * (place % 50), id, null]),
      e2e_latency: 0.5,
    },
  });
}

/** The replies of the gold episodes, one for "<task>:<turn>". */
export function goldServerReplies({ tasks, environment, tokenizer }) {
  const taskset = environment.taskset("test");
  const replies = {};
  for (const [index, task] of tasks.entries()) {
    for (const [turn, text] of goldReplies(task).entries()) {
      replies[`${taskset.task(index).id}:${turn}`] = cannedReply(text, tokenizer);
    }
  }
  return replies;
}

/** Starts the canned server in a process of its own. */
export async function startServer(replies, { record = true, delay = null } = {}) {
  // Bodies fly through its memory. V8 would look through all of it every few megabytes, on cores that we measure with.
  const execArgv = [...process.execArgv, "--heap-growing-percent=1000"];
  const child = fork(fileURLToPath(new URL("./canned-server.mjs", import.meta.url)), { execArgv });
  const once = (type) =>
    new Promise((resolve) => {
      const listener = (message) => {
        if (message.type !== type) return;
        child.off("message", listener);
        resolve(message);
      };
      child.on("message", listener);
    });
  const { port } = await once("listening");
  const loaded = once("loaded");
  child.send({ type: "load", replies, record, delay });
  await loaded;
  return {
    port,
    /** The bodies recorded so far, by "<episode>:<turn>"; recording ends. */
    bodies: async () => {
      const answer = once("bodies");
      child.send({ type: "bodies" });
      return new Map((await answer).bodies.map(([key, body]) => [key, Buffer.from(body, "latin1")]));
    },
    close: () => child.disconnect(),
  };
}

/** A client that sends given bodies and reads the replies, and does nothing else. */
export function nullClient(pool) {
  return async (body) => {
    const { body: reply } = await pool.request({
      method: "POST",
      path: "/generate",
      headers: { "content-type": "application/json" },
      body,
    });
    return (await reply.text()).length;
  };
}
