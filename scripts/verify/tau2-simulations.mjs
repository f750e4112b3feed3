// Rollouts with scripted agents and users in τ²-bench: reference solutions, some of them altered,
// mixed with calls of other tools, and several kinds of endings. Everything is drawn from a seed.
// Agent and user of an episode share its script, which the user's first message names.

import { join } from "node:path";
import { judgedAssertions, stopToken, tau2Source } from "../../dist/environments/tau2-bench/index.js";
import { rollout } from "../../dist/index.js";
import { createRandom } from "../../dist/lib/random.js";
import { pythonRepr } from "../../dist/python-semantics/index.js";
import { dumpJson } from "../../dist/python-semantics/json/index.js";
import { digestOf } from "../../dist/rollout/index.js";
import { taskUser } from "../../dist/users/index.js";

/** Changes to a reference solution. */
const variants = /** @type {const} */ ([
  "gold",
  "silent",
  "dropped",
  "repeated",
  "changed",
  "random-calls",
  "too-many-errors",
  "many-calls",
]);

/**
 * @typedef {Awaited<ReturnType<typeof import("../../dist/environments/tau2-bench/index.js").loadTau2Data>>} Data
 * @typedef {Awaited<ReturnType<Data["tasks"]>>[number]} Task
 * @typedef {{ readonly name: string, readonly arguments: import("../../dist/environments/tau2-bench/index.js").ToolCall["arguments"], readonly requestor: "assistant" | "user" }} Call
 * @typedef {{ readonly rounds: Call[][], readonly closing: string, isClosed: boolean }} Script
 */

const free = { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 };

/**
 * Runs tasks of a domain into run folders: most of them to the end, some up to a limit. Resolves
 * with the folders.
 *
 * @param {Data} data
 * @param {{ readonly folder: string, readonly out: string, readonly count: number, readonly isSolo: boolean, readonly verdict: boolean, readonly seed: number }} options
 *   `folder`: of the data. `verdict`: of the judge, on everything.
 */
export async function playSimulations(data, { folder, out, count, isSolo, verdict, seed }) {
  const tasks = await data.tasks("base");
  const env = `tau2-bench/${data.domain.name}${isSolo ? "-solo" : ""}`;
  const source = await tau2Source(data, { isSolo });
  const random = createRandom(seed);
  const { size } = source.taskset("base");
  const drawn = random.shuffle(Array.from({ length: size }, (_, index) => index)).slice(0, count);
  // A task that is drawn again is run as another trial.
  const groupSize = Math.ceil(count / drawn.length);
  const limited = Math.max(1, Math.floor(drawn.length / 8));
  const folders = [];
  for (const [name, indexes, maxTurns] of /** @type {const} */ ([
    ["whole", drawn.slice(limited), 100],
    ["limited", drawn.slice(0, limited), 2],
  ])) {
    const place = join(out, `${data.domain.name}${isSolo ? "-solo" : ""}-${String(verdict)}-${name}`);
    const sides = scriptedSides(data, tasks, { isSolo, random });
    await rollout({
      env,
      data: folder,
      split: "base",
      tasks: indexes,
      groupSize,
      maxTurns,
      calls: "several",
      out: place,
      agentModel: sides.agent,
      user: isSolo ? taskUser() : sides.user,
      seed,
      // Refused if no task needs a judge.
      ...(source.needsJudge === undefined ? {} : { judgeModel: constantJudge(tasks, verdict) }),
    });
    folders.push(place);
  }
  return folders;
}

/**
 * @param {Data} data
 * @param {readonly Task[]} tasks
 * @param {{ readonly isSolo: boolean, readonly random: ReturnType<typeof createRandom> }} options
 */
function scriptedSides(data, tasks, { isSolo, random }) {
  /** @type {Map<string, Script>} */
  const scripts = new Map();
  let calls = 0;
  const begin = (/** @type {string} */ key, /** @type {Task} */ task) => {
    const variant = variants[scripts.size % variants.length] ?? "gold";
    const said = variant === "silent" ? [] : (task.criteria?.communicated ?? []);
    const rounds = plan(data, tasks, { task, variant, random });
    const script = { rounds, closing: ["That is all.", ...said].join(" "), isClosed: false };
    scripts.set(key, script);
    return script;
  };
  /** @type {import("../../dist/core/index.js").ChatAgent} */
  const agent = {
    name: "scripted",
    reply: async ({ messages }) => {
      const first = messages.find(({ role }) => role === "user")?.content ?? "";
      const key = isSolo ? first : (/^Case (\d+)\./.exec(first)?.[1] ?? "");
      const task = isSolo ? tasks.find(({ ticket }) => ticket === first) : undefined;
      const script = scripts.get(key) ?? (task === undefined ? undefined : begin(key, task));
      if (script === undefined) throw new Error(`There is no script of "${key}".`);
      const [next] = script.rounds;
      const isOwn = next !== undefined && (isSolo || next[0]?.requestor === "assistant");
      if (isOwn) script.rounds.shift();
      else if (next === undefined) script.isClosed = true;
      const made = isOwn ? next : isSolo ? [{ name: "done", arguments: new Map() }] : [];
      const content = made.length > 0 ? "" : next === undefined ? script.closing : "Please do what I say.";
      const toolCalls = made.map((call) => ({
        id: `agent_${calls++}`,
        name: call.name,
        argumentsText: dumpJson(call.arguments),
      }));
      const action = { text: content, reasoning: null, content, toolCalls, problems: [], isTerminated: true };
      return { action, usage: { ...free, modelCalls: 1, inputTokens: 100, outputTokens: 10 }, attempts: [] };
    },
  };
  /** @type {import("../../dist/core/index.js").UserSource} */
  const user = {
    name: "scripted",
    create: ({ index }) => {
      const key = String(scripts.size);
      const task = tasks[index];
      if (task === undefined) throw new Error(`There is no task ${index}.`);
      const script = begin(key, task);
      const speak = async () => {
        const [next] = script.rounds;
        if (next?.[0]?.requestor === "user") {
          script.rounds.shift();
          const made = next.map((call) => ({ id: `user_${calls++}`, name: call.name, arguments: call.arguments }));
          return { type: /** @type {const} */ ("calls"), text: "", usage: free, calls: made };
        }
        if (next !== undefined)
          return { type: /** @type {const} */ ("utterance"), text: "Please help me.", usage: free };
        if (!script.isClosed) return { type: /** @type {const} */ ("utterance"), text: "And?", usage: free };
        return { type: /** @type {const} */ ("hang-up"), text: stopToken, usage: free };
      };
      return {
        open: async () => ({ type: "utterance", text: `Case ${key}. Please help me.`, usage: free }),
        reply: speak,
        observe: speak,
      };
    },
  };
  return { agent, user };
}

/**
 * A judge with the same verdict on every assertion.
 *
 * @param {readonly Task[]} tasks
 * @param {boolean} verdict
 * @returns {import("../../dist/core/index.js").Judge}
 */
function constantJudge(tasks, verdict) {
  const lists = tasks.map((task) => judgedAssertions(task)).filter(({ length }) => length > 0);
  return {
    model: "constant",
    ask: async (question) => {
      const text = question.messages[1]?.content.trimEnd() ?? "";
      const assertions = lists.find((list) => text.endsWith(pythonRepr([...list]))) ?? [];
      const results = assertions.map((expectedOutcome) => ({
        expectedOutcome,
        reasoning: "constant",
        metExpectation: verdict,
      }));
      const facts = { grader: question.grader, model: "constant", digest: digestOf(question), attempts: [] };
      return { ...facts, answer: JSON.stringify({ results }), usage: free, isCached: false, failure: null };
    },
  };
}

/**
 * Rounds of calls, each made by one side.
 *
 * @param {Data} data
 * @param {readonly Task[]} tasks
 * @param {{ readonly task: Task, readonly variant: (typeof variants)[number], readonly random: ReturnType<typeof createRandom> }} options
 * @returns {Call[][]}
 */
function plan(data, tasks, { task, variant, random }) {
  const gold = (task.criteria?.actions ?? []).map(pickCall);
  const all = tasks.flatMap(({ criteria }) => (criteria?.actions ?? []).map(pickCall));
  const any = () => random.pick(all);
  if (variant === "dropped") gold.splice(random.integer(Math.max(1, gold.length)), 1);
  if (variant === "repeated" && gold.length > 0) gold.push(random.pick(gold));
  if (variant === "changed" && gold.length > 0) gold[random.integer(gold.length)] = any();
  if (variant === "random-calls") for (let n = 0; n < 6; n++) gold.splice(random.integer(gold.length + 1), 0, any());
  if (variant === "too-many-errors") {
    const name = data.tools[0]?.name ?? "";
    for (let n = 0; n < 11; n++) gold.unshift({ name, arguments: new Map([["wrong", n]]), requestor: "assistant" });
  }
  if (variant !== "many-calls") return gold.map((call) => [call]);
  /** @type {Call[][]} */
  const rounds = [];
  for (const call of gold) {
    const last = rounds.at(-1);
    if (last?.[0]?.requestor === call.requestor) last.push(call);
    else rounds.push([call]);
  }
  return rounds;
}

/** @param {Call} call @returns {Call} */
const pickCall = ({ name, arguments: given, requestor }) => ({ name, arguments: given, requestor });
