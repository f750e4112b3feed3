// Episodes in which every reply is prepared and sent by a server that knows it: the gold actions of
// τ-bench retail's test split if ../shared exists, of our bookshop's validation tasks otherwise and
// with BENCH_WORLD=bookshop. Shared by the benchmarks of the loop.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

import { createToolCalling } from "../../dist/agents/index.js";
import { bookshopSource } from "../../dist/environments/bookshop/index.js";
import { createScenario } from "../../dist/environments/bookshop/scenario.js";
import { tauBenchSource } from "../../dist/environments/tau-bench/index.js";
import { chooseRenderer, createQwenRenderer } from "../../dist/renderers/index.js";
import { loadModelFolder, loadTokenizer } from "../../dist/tokenizers/index.js";
import { scriptedUser } from "../../dist/users/index.js";

const shared = fileURLToPath(new URL("../../../shared/", import.meta.url));
const models = fileURLToPath(new URL("../../models/", import.meta.url));
const stop = "###STOP###";
/** The number of retail's test tasks. */
const bookshopTasks = 115;

/** "tau-bench/retail" or "bookshop". */
export const worldName =
  process.env.BENCH_WORLD ?? (existsSync(join(shared, "tau-bench")) ? "tau-bench/retail" : "bookshop");

/**
 * Environment, model folder, tokenizer, renderer and prepared actions of the world; `lookUp`: a
 * call that every episode may repeat; `settings`: the same as options of a rollout.
 */
export async function loadWorld() {
  process.stderr.write(`episodes of ${worldName}\n`);
  const world = worldName === "bookshop" ? await loadBookshop() : await loadRetail();
  return { ...world, taskset: world.environment.taskset(world.split), strategy: createToolCalling() };
}

async function loadRetail() {
  try {
    const modelFolder = join(shared, "models", "qwen2.5-instruct");
    const data = join(shared, "tau-bench");
    const tokenizer = await loadTokenizer(modelFolder);
    const environment = await tauBenchSource({ domain: "retail", folder: data });
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const tasks = JSON.parse(await readFile(join(data, "retail", "tasks_test.json"), "utf8"));
    const settings = { env: "tau-bench/retail", split: "test", data };
    const lookUp = { name: "get_user_details", args: { user_id: tasks[0].user_id } };
    return { split: "test", modelFolder, tokenizer, environment, renderer, tasks, settings, lookUp };
  } catch (error) {
    process.stderr.write(
      `Cannot replay τ-bench retail from ../shared (${error.message}); BENCH_WORLD=bookshop takes our own world.\n`,
    );
    return process.exit(2);
  }
}

async function loadBookshop() {
  const modelFolder = join(models, "bookshop-1m");
  const { tokenizer, vocabularySize, chatTemplate, specialTokens } = await loadModelFolder(modelFolder);
  const renderer = chooseRenderer({ tokenizer, vocabularySize, chatTemplate, specialTokens });
  const split = "validation";
  const tasks = Array.from({ length: bookshopTasks }, (_, index) => {
    const { shop, goals } = createScenario({ law: split, seedName: "test" }, index);
    const [member] = shop.members.keys();
    const orders = [...shop.orders.values()].filter((order) => order.member === member);
    const lookUps = [member, ...orders.map(({ id }) => id)].map((id) => ({ name: "look_up", kwargs: { id } }));
    const gold = goals.flatMap((goal) => goal.gold);
    const actions = gold.map(({ name, arguments: given }) => ({ name, kwargs: Object.fromEntries(given) }));
    return { actions: [...lookUps, ...actions] };
  });
  const { name, kwargs } = tasks[0].actions[0];
  const settings = { env: "bookshop", split };
  return {
    split,
    modelFolder,
    tokenizer,
    renderer,
    tasks,
    settings,
    environment: bookshopSource(),
    lookUp: { name, args: kwargs },
  };
}

export function callText(name, args) {
  return `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
}

/**
 * The gold actions of a task as replies, with a greeting before and a closing line after them. A
 * hand-over would end the episode.
 */
export function goldReplies(task) {
  const handOvers = ["transfer_to_human_agents", "hand_over"];
  const calls = task.actions.filter(({ name }) => !handOvers.includes(name));
  return ["Hello! How can I help you?", ...calls.map(({ name, kwargs }) => callText(name, kwargs)), "All done."];
}

/** A user with the same lines in every episode: opens, answers the greeting, hangs up. */
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
export function goldServerReplies({ tasks, taskset, tokenizer }) {
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
  // Bodies pass through its memory quickly. V8 would scan all of it every few megabytes, on cores
  // that are used for measuring.
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

/** A client that only sends given bodies and reads the replies. */
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
