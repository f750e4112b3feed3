// A process that runs a rollout into a folder, or resumes the run in it, and may kill itself in the
// middle of a write. Its agents are functions of prompt and seed, so that every process would have
// sampled the same: the expert of the bookshop, the expert of τ²-bench's telecom domain, and a
// script for τ²-bench's mock domain, whose user is recorded by the first run and replayed by all
// others.
// Run by tests/chaos.test.ts: node chaos-child.mjs <folder> <plan> <seed> <tasks> <kill at write,
// 0: never> <share of it that is written> <world> [<data>]. The plan "all" runs each task once;
// "filtered" runs groups until three with a learning signal are kept.

import { existsSync, readFileSync } from "node:fs";
import { appendFile, open } from "node:fs/promises";
import { dirname, join } from "node:path";

import { bookshopSource, createExpertEngine } from "../../dist/environments/bookshop/index.js";
// Modules are imported directly rather than through entries that load unneeded libraries: this
// process is started often.
import { createToolCalling } from "../../dist/agents/tool-calling.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { dropZeroSignal, resumableRunner, runRollout, episodeRunner } from "../../dist/rollout/index.js";
import { createFileRunStore, resumeFileRunStore } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/readable-tokenizer.js";
import { agendaUser } from "../../dist/users/agenda.js";

const [folder, plan, ...numbers] = process.argv.slice(2, 8);
const [seed, tasks, killAt, share] = numbers.map(Number);
const [world, data] = process.argv.slice(8);

const tokenizer = createReadableTokenizer();

/** Environment, its split, task indexes in it, the user, and the agent's action. */
const worlds = {
  bookshop: () => ({ environment: bookshopSource(), split: "train", taskAt: (at) => at, user: agendaUser() }),
  telecom: async () => {
    const { loadTau2Data, tau2Source, telecomExpertAction, telecomRuleUser } = await tau2();
    const environment = await tau2Source(await loadTau2Data({ domain: "telecom", folder: data }));
    // A stride of 19 reaches tasks of every kind.
    return { environment, split: "base", taskAt: (at) => 19 * at, user: telecomRuleUser(), act: telecomExpertAction };
  },
  mock: async () => {
    const { loadTau2Data, tau2Source } = await tau2();
    const environment = await tau2Source(await loadTau2Data({ domain: "mock", folder: data }));
    return {
      environment,
      split: "base",
      taskAt: (at) => [8, 3, 0, 1, 5, 6][at],
      user: await recordedUser(),
      act: mockAction,
    };
  },
};

const tau2 = () => import("../../dist/environments/tau2-bench/index.js");

/**
 * A user of the mock domain that reads and dismisses its notification; replayed if the first run
 * has recorded it.
 */
async function recordedUser() {
  const { recordingUser, parseUserExchanges, selectUser } = await import("../../dist/users/index.js");
  const file = join(dirname(folder), "users.jsonl");
  if (folder !== join(dirname(folder), "calm-all")) {
    return selectUser("replay", { exchanges: parseUserExchanges(readFileSync(file, "utf8")) });
  }
  const usage = { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  const calls = (id, name, ...given) => ({
    type: "calls",
    text: "",
    usage,
    calls: [{ id, name, arguments: new Map(given) }],
  });
  const create = () => {
    let looks = 0;
    return {
      open: async () => ({ type: "utterance", text: "I have been notified of something.", usage }),
      reply: async (text) =>
        text.includes("done") ? { type: "hang-up", text: "###STOP###", usage } : calls("first", "check_notifications"),
      observe: async ([{ text }]) =>
        ++looks === 1
          ? calls("second", "dismiss_notification", ["notification_id", "notif_1"])
          : { type: "utterance", text: `It says: ${text}`, usage },
    };
  };
  return recordingUser({ name: "reader", create }, (one) => appendFile(file, `${JSON.stringify(one)}\n`));
}

/**
 * Requests the notification, completes the task, and says so; sometimes, depending on the seed, it
 * only says so.
 */
function mockAction(prompt, { seed: drawn }) {
  // After the greeting.
  const turns = prompt.split("<|im_start|>assistant").length - 3;
  const call =
    '<tool_call>\n{"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}\n</tool_call>';
  const lines = ["Please look at your notifications.", drawn % 4 === 0 ? "One moment." : call, "It is done."];
  return { text: lines[Math.min(turns, 2)], probability: 1 };
}

const { environment, split, taskAt, user, act } = await worlds[world]();
const engine = createExpertEngine({ tokenizer, noise: 0.2, ...(act === undefined ? {} : { act }) });

/** Every write of the store passes through here. */
let writes = 0;
const probe = await open(process.argv[1], "r");
const prototype = Object.getPrototypeOf(probe);
await probe.close();
const { write } = prototype;
prototype.write = async function killing(bytes, ...rest) {
  if (++writes !== killAt) return write.call(this, bytes, ...rest);
  await write.call(this, bytes.subarray(0, Math.floor(bytes.length * share)));
  process.kill(process.pid, "SIGKILL");
  return new Promise(() => {});
};

const goesOn = existsSync(join(folder, "run.json"));
const options = { fsync: "never", segmentBytes: 100_000 };
const earlier = goesOn ? await resumeFileRunStore(folder, options) : null;
const store = earlier?.store ?? createFileRunStore(folder, options);
await store.begin(new Map([["seed", seed]]));
const report = {
  ended: earlier?.ended.size ?? 0,
  underWay: earlier?.inFlight.size ?? 0,
  torn: earlier?.torn.length ?? 0,
  turns: 0,
  userCalls: 0,
};
for (const id of earlier?.inFlight ?? []) {
  for (const { type, line } of await store.recorded(id)) {
    if (type === "turn") report.turns++;
    if (type === "user-line" && line.calls !== undefined) report.userCalls++;
  }
}
process.stdout.write(`${JSON.stringify(report)}\n`);

const parts = {
  environment,
  engine,
  user,
  strategy: createToolCalling(),
  renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
};
await runRollout(
  {
    taskset: environment.taskset(split),
    taskIndexes: Array.from({ length: tasks }, (_, index) => taskAt(index)),
    groupSize: 2,
    seed,
  },
  {
    runEpisode: resumableRunner(episodeRunner(parts, { seedTurns: true }), store),
    store,
    ...(earlier === null ? {} : { decided: earlier.decided }),
    exportSamples: ({ result }, { index }) =>
      result.samples.map(({ id, tokens, lossMask, reward }) =>
        JSON.stringify({ id, index, tokens: [...tokens], lossMask: [...lossMask], reward }),
      ),
  },
  plan === "all"
    ? { concurrency: 8 }
    : { concurrency: 8, groups: { filters: [dropZeroSignal()] }, quota: { target: 3, oversample: 2 } },
);
await store.close(new Map([["writes", writes]]));
