// Runs for the viewer's verification: real ones of the bookshop and of τ-bench, a killed one, a large one, a hostile one, a training.

import { spawn } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { exportRun, rollout, train } from "../../../dist/index.js";
import { createTrainer } from "../../../dist/learner/index.js";
import { readCheckpoint, shippedCheckpoint } from "../../../dist/learner/model/index.js";
import { createFileRunStore, openRunFolder } from "../../../dist/store/index.js";
import { createFunctionSampler, createSglangFront } from "../../../dist/testing/index.js";
import { createReadableTokenizer } from "../../../dist/tokenizers/index.js";
import { episodeSamples } from "../../../dist/trajectories/index.js";
import { root } from "../../run-command.mjs";

/** @typedef {import("../../../src/core/index.ts").Episode} Episode */

/**
 * A rollout of the bookshop by the scripted expert, which errs at the given rate.
 *
 * @param {string} folder @param {{ noise: number, tasks?: string, seed?: number }} options
 */
export async function bookshopRun(folder, { noise, tasks = "0-11", seed = 1 }) {
  const settings = /** @type {const} */ ({
    env: "bookshop",
    engine: "expert",
    expertNoise: noise,
    tasks,
    groupSize: 4,
    seed,
    quiet: true,
  });
  await rollout({ ...settings, out: folder, variables: {} });
}

/** The same small model, whose episodes have real logprobs. @param {string} folder */
export async function sampledRun(folder) {
  const settings = /** @type {const} */ ({
    env: "bookshop",
    engine: "embedded",
    model: "bookshop-nano",
    tasks: "0-9",
    groupSize: 4,
    seed: 1,
  });
  await rollout({ ...settings, quiet: true, out: folder, variables: {} });
}

/**
 * Logprobs that the embedded learner computes for the tokens of a run, each line ending with the
 * last token of its row. One logprob of the second row is far away, one is not a number, and the
 * third row has a line of another length.
 *
 * @param {string} run @param {string} file
 */
export async function trainerLogprobs(run, file) {
  const trainer = await createTrainer(await readCheckpoint(shippedCheckpoint("bookshop-nano")), { threads: 1 });
  /** @type {string[]} */
  const lines = [];
  try {
    for await (const episode of openRunFolder(run).episodes()) {
      for (const { episodeId, branch, tokens, lossMask } of episodeSamples(episode).samples) {
        const targets = Uint32Array.from([...lossMask.keys()].filter((at) => lossMask[at] === 1));
        const [outcome] = await trainer.evaluate([{ tokens, targets }]);
        /** @type {(number | string)[]} */
        const logprobs = Array.from(tokens, () => 0);
        for (const [index, at] of targets.entries()) logprobs[at] = outcome?.logprobs[index] ?? NaN;
        if (lines.length === 1) {
          logprobs[targets[0] ?? 0] = -9;
          logprobs[targets[1] ?? 0] = "NaN";
        }
        if (lines.length === 2) logprobs.splice(0, 3);
        lines.push(
          `{"episode_id": ${JSON.stringify(episodeId)}, "branch": ${branch}, "logprobs": [${logprobs.join(", ")}]}`,
        );
      }
    }
  } finally {
    await trainer.close();
  }
  await writeFile(file, `${lines.join("\n")}\n`);
}

/** `null` if the data of τ-bench is not beside this clone. @param {string} folder */
export async function tauRun(folder) {
  const data = join(root, "..", "shared", "tau-bench");
  if (!existsSync(join(data, "retail"))) return null;
  const tokenizer = createReadableTokenizer();
  const end = tokenizer.tokenId("<|im_end|>") ?? 0;
  const said = [
    '<tool_call>\n{"name": "find_user_id_by_name_zip", "arguments": {"first_name": "Yusuf", "last_name": "Rossi", "zip": "19122"}}\n</tool_call>',
    '<tool_call>\n{"name": "get_order_details", "arguments": {"order_id": "#W2378156"}}\n</tool_call>',
    '<tool_call>\n{"name": "cancel_pending_order", "arguments": {"order_id": "#W2378156", "reason": "no longer needed"}}\n</tool_call>',
    '<tool_call>\n{"name": "no_such_tool", "arguments": {"a": 1.0}\n</tool_call>',
    "That is done. Anything else?",
  ];
  let turn = 0;
  const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode(said[turn++ % said.length] ?? ""), end] }));
  const listener = await createSglangFront({ sampler, tokenizer, endTokenIds: [end] }).listen();
  const lines = join(folder, "..", "lines.txt");
  await writeFile(lines, "Hi, I am Yusuf Rossi, 19122.\nYes, please.\nThank you. ###STOP###\n");
  const settings = /** @type {const} */ ({
    env: "tau-bench/retail",
    data,
    tasks: "0-1",
    groupSize: 2,
    userLines: lines,
    url: listener.url,
  });
  try {
    await rollout({ ...settings, model: "readable", concurrency: 1, quiet: true, out: folder, variables: {} });
  } finally {
    await listener.close();
  }
  return folder;
}

/**
 * A rollout in a separate process that has written a few episodes; `kill` ends it at once.
 *
 * @param {string} folder
 */
export async function startRun(folder) {
  const flags =
    "rollout --env bookshop --engine embedded --model bookshop-nano --tasks 0-999 --group-size 4 --quiet --out";
  const child = spawn(process.execPath, [join(root, "dist", "cli", "main.js"), ...flags.split(" "), folder], {
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const file = join(folder, "episodes.jsonl");
  for (let waited = 0; waited < 60_000; waited += 100) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (existsSync(file) && readFileSync(file, "utf8").split("\n").length > 12) break;
  }
  return async () => {
    child.kill("SIGKILL");
    await ended;
  };
}

/**
 * A run of `count` episodes, each a copy of one that was run.
 *
 * @param {string} from @param {string} folder @param {number} count
 */
export async function largeRun(from, folder, count) {
  const reader = openRunFolder(from);
  /** @type {Episode[]} */
  const episodes = [];
  for await (const episode of reader.episodes()) episodes.push(episode);
  const manifest = await reader.manifest();
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  /** @type {Promise<void>[]} */
  let pending = [];
  for (let at = 0; at < count; at++) {
    const episode = episodes[at % episodes.length];
    if (episode === undefined) throw new Error("There is no episode to copy.");
    const task = `bookshop:train:${Math.floor(at / 4)}`;
    const place = {
      groupId: task,
      sampleIndex: at % 4,
      task: { ...episode.task, id: task, contentHash: String(at >> 2) },
    };
    pending.push(store.append({ ...episode, ...place, id: `${task}#${at % 4}` }));
    if (pending.length < 256) continue;
    await Promise.all(pending);
    pending = [];
  }
  await Promise.all(pending);
  await store.close(manifest);
}

/**
 * A run with text that breaks a careless page, everywhere that an episode has text.
 *
 * @param {string} from @param {string} folder @param {string} address
 */
export async function hostileRun(from, folder, address) {
  const reader = openRunFolder(from);
  const first = await firstOf(reader.episodes());
  const attack = [
    `<script>fetch("${address}/script")</script><img src="${address}/image" onerror="fetch('${address}/error')">`,
    `<iframe src="${address}/frame"></iframe><link rel=stylesheet href="${address}/style"><svg onload="fetch('${address}')">`,
    `</script></style></textarea>&lt;b&gt; {{7*7}} javascript:alert(1)`,
    `half \ud83d character, nul \u0000, bell \u0007, escape \u001b[31m, turned \u202etxt.exe, __proto__`,
  ].join("\n");
  const manifest = await reader.manifest();
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  const events = first.events.map((event) => {
    if (event.type === "user-line") return { ...event, line: { ...event.line, text: attack } };
    if (event.type === "tool-result") return { ...event, result: { ...event.result, text: attack } };
    if (event.type === "decision") return { ...event, action: { ...event.action, text: attack, content: attack } };
    return event;
  });
  /** @type {import("../../../src/python-semantics/json/value.ts").JsonObject} */
  const info = new Map([["expected_actions", [new Map([["name", attack]])]]]);
  const grade = { metrics: {}, log: attack, reward: 0, info };
  const hostile = { ...first, events, grade, reward: 0 };
  const task = { ...first.task, id: attack.slice(0, 200), instruction: attack };
  await store.append({ ...hostile, id: `a"><img src=${address}/id>`, groupId: attack.slice(0, 100), task });
  const big = /** @type {const} */ ({ type: "tool-result", turn: 0, cutFrom: null, durationMs: 1 });
  const huge = `${attack}\n${"observation ".repeat(420_000)}`;
  await store.append({
    ...hostile,
    id: "huge",
    groupId: "huge",
    events: [...events, { ...big, result: { text: huge, isError: false, endsEpisode: false, info: new Map() } }],
  });
  await store.close(manifest);
  return attack;
}

/** @param {AsyncIterable<Episode>} episodes @returns {Promise<Episode>} */
async function firstOf(episodes) {
  for await (const episode of episodes) return episode;
  throw new Error("The run has no episode.");
}

/** Two steps of a real training, with an evaluation. @param {string} folder */
export async function trainingRun(folder) {
  const sizes = { steps: 3, groups: 2, groupSize: 4, finalTasks: 7, evalTasks: 7, evalEvery: 1 };
  await train({ env: "bookshop", model: "bookshop-nano", ...sizes, minutes: 5, out: folder, variables: {} });
}

/**
 * Files of other tools, by the name of their format: a run in formats that readers of these tools
 * accept, a log that inspect packed itself, and results in the shapes of verifiers, τ-bench and
 * τ²-bench.
 *
 * @param {string} run @param {(name: string) => string} at @returns {Promise<Record<string, string>>}
 */
export async function foreignFiles(run, at) {
  const exported = /** @type {const} */ ([
    ["slime", "slime.jsonl"],
    ["verifiers", "traces.jsonl"],
    ["inspect", "inspect.json"],
    ["atif", "atif.jsonl"],
  ]);
  for (const [format, name] of exported) await exportRun({ runs: [run], format, output: at(name) });
  copyFileSync(join(root, "tests", "goldens", "foreign", "bookshop.eval"), at("inspect.eval"));
  const call = { id: "c1", type: "function", function: { name: "find_order", arguments: '{"order": "#W1"}' } };
  const said = [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "c1", content: "no such order" },
    { role: "assistant", content: "There is no such order." },
  ];
  const question = { role: "user", content: "Where is my order?" };
  const row = { example_id: 0, prompt: [question], completion: said, answer: "", reward: 0.5, is_truncated: false };
  await writeFile(at("results.jsonl"), `${JSON.stringify({ ...row, metrics: {}, error: null })}\n`);
  const actions = [{ name: "cancel_order", kwargs: { order: "#W1" } }];
  const task = { user_id: "u", actions, instruction: "You want to know where your order is.", outputs: [] };
  const info = { task, source: "user", user_cost: 0.01, reward_info: { reward: 0, info: {}, actions } };
  const traj = [question, ...said];
  const crash = { task_id: 1, reward: 0, info: { error: "boom", traceback: "" }, traj: [], trial: 0 };
  await writeFile(at("tau.json"), JSON.stringify([{ task_id: 0, reward: 0, info, traj, trial: 0 }, crash]));
  const criteria = { actions: [{ name: "cancel_order", arguments: { order: "#W1" }, requestor: "assistant" }] };
  const scenario = { instructions: { task_instructions: "Ask.", reason_for_call: "The order is late." } };
  const simulation = {
    id: "s",
    task_id: "0",
    trial: 0,
    termination_reason: "user_stop",
    duration: 2,
    reward_info: { reward: 0 },
    messages: [question, { ...said[0], tool_calls: [{ id: "c1", name: "find_order", arguments: { order: "#W1" } }] }],
  };
  const domain = { environment_info: { domain_name: "retail" }, agent_info: { llm: "m" } };
  const tasks = [{ id: "0", user_scenario: scenario, evaluation_criteria: criteria }];
  await writeFile(at("tau2.json"), JSON.stringify({ info: domain, tasks, simulations: [simulation] }));
  return {
    slime: at("slime.jsonl"),
    traces: at("traces.jsonl"),
    inspect: at("inspect.json"),
    atif: at("atif.jsonl"),
    eval: at("inspect.eval"),
    results: at("results.jsonl"),
    tau: at("tau.json"),
    tau2: at("tau2.json"),
  };
}
