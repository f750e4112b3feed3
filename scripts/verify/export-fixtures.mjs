// Rows of every format, in every kind of file, with the contents of their samples: for the Python
// tests, in which the trainers' own libraries read them. `node export-fixtures.mjs <folder>`,
// against the build. The same rows every time.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import {
  createJsonLinesFile,
  createParquetFile,
  exportFormatNames,
  exportFormats,
  exportGroup,
} from "../../dist/export/index.js";
import { toSamples, TrajectoryRecorder, turnSpans } from "../../dist/trajectories/index.js";

const folder = process.argv[2] ?? "rows";
const tools = '[{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]';
let state = 7;
/** @param {number} bound */
const random = (bound) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * bound);
};
/**
 * A quarter for each turn except the first, whose reward is unknown, and the last, which has the
 * rest.
 * @param {number} turns
 * @param {number} reward
 */
const turnRewardsOf = (turns, reward) =>
  Array.from({ length: turns }, (_, turn) =>
    turn === turns - 1 ? reward - Math.max(0, turns - 2) / 4 : turn === 0 ? null : 0.25,
  );
/** @param {number} length */
const ids = (length) => Uint32Array.from({ length }, () => random(150_000));

/**
 * @param {number} groupIndex
 * @param {number} sampleIndex
 */
function makeEpisode(groupIndex, sampleIndex) {
  const recorder = new TrajectoryRecorder();
  /** @type {any[]} */
  const messages = [
    { role: "system", content: "Rules, “quoted” and\nbroken." },
    { role: "user", content: "I want a book. 📚" },
  ];
  /** @type {any[]} */
  const events = [];
  recorder.extend(ids(5 + random(20)));
  const turns = 1 + random(4);
  for (let index = 0; index < turns; index++) {
    const sampledTokens = ids(2 + random(12));
    const half = sampledTokens.length >> 1;
    const turn = recorder.act({
      sampledTokens,
      logprobs: Float32Array.from(sampledTokens, () => -random(3_000) / 997),
      finish: { reason: "stop", matched: null, raw: null },
      requestIds: [`é-${index}`],
      weightSpans: [
        { tokenCount: half, dispatch: "3", reply: "3" },
        { tokenCount: sampledTokens.length - half, dispatch: "3", reply: String(3 + (index % 2)) },
      ],
    });
    const call = { id: `call_${index}_0`, name: "find", argumentsText: '{"title": "Zoë"}' };
    const isCall = index % 2 === 0;
    const action = {
      text: isCall ? `<call>${call.argumentsText}</call>` : `words ${index}`,
      reasoning: null,
      content: isCall ? "" : `words ${index}`,
      toolCalls: isCall ? [call] : [],
      problems: [],
      isTerminated: true,
    };
    const decision = isCall
      ? { type: "call", problems: [], call, arguments: new Map() }
      : { type: "say", problems: [], content: action.content };
    const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: null };
    events.push({ type: "turn", turn, attempts: [], usage, durationMs: 1_500 });
    events.push({ type: "decision", turn: index, action, decision });
    messages.push({ role: "assistant", content: action.text, reasoning: null, toolCalls: [] });
    if (index === turns - 1) break;
    messages.push(
      isCall
        ? { role: "tool", content: "found", name: "find", callId: call.id }
        : { role: "user", content: `answer ${index}` },
    );
    // A third of the histories are rewritten, which makes another branch.
    if (random(3) === 0) recorder.rewrite(ids(8), "fixture");
    else recorder.extend(ids(1 + random(6)));
  }
  const id = `desk:train:${groupIndex}`;
  const reward = sampleIndex / 4;
  const task = { environment: "desk", split: "train", contentHash: "ab", instruction: null, agenda: null };
  const episode = {
    id: `${id}#${sampleIndex}`,
    groupId: id,
    sampleIndex,
    task: { id, index: groupIndex, ...task },
    seed: 1,
    outcome: "completed",
    stopReason: "tool_ended",
    failure: null,
    reward,
    grade: { reward, metrics: { db: 1 }, log: "", info: new Map(), turnRewards: turnRewardsOf(turns, reward) },
    info: new Map(),
    messages,
    trajectory: recorder.trajectory,
    historyPolicy: "branch",
    events,
    problems: [],
  };
  const origin = { episodeId: episode.id, groupId: id, taskId: id, reward };
  const result = toSamples(episode.trajectory, {
    ...origin,
    tokenAccounting: "token-exact",
    historyPolicy: "branch",
  });
  return { episode, result, index: groupIndex * 4 + sampleIndex };
}

const groups = Array.from({ length: 8 }, (_, groupIndex) => ({
  run: null,
  groupIndex,
  decision: /** @type {const} */ ("kept"),
  reason: null,
  episodes: Array.from({ length: 4 }, (_two, sampleIndex) => makeEpisode(groupIndex, sampleIndex)),
}));
mkdirSync(folder, { recursive: true });
/**
 * Experts of three layers, two per token, derived from the token's position and id.
 * @param {Uint32Array} tokens
 */
const expertsOf = (tokens) =>
  Array.from({ length: (tokens.length - 1) * 6 }, (_, at) => ((tokens[Math.floor(at / 6)] ?? 0) + at) % 256);
/**
 * Kept ids of a sampled token, derived from its position and id, which is among them.
 * @param {Uint32Array} tokens
 * @param {number} at
 */
const keptAt = (tokens, at) => {
  const id = tokens[at] ?? 0;
  const others = Array.from({ length: (id + at) % 4 }, (_, one) => (id + 1 + one) % 150_000);
  return [...others, id];
};
/** @param {{ tokens: Uint32Array, sampledMask: Uint8Array }} sample */
const keptOf = ({ tokens, sampledMask }) =>
  [...tokens.keys()].flatMap((at) => (sampledMask[at] === 1 ? [keptAt(tokens, at)] : []));
for (const name of exportFormatNames) {
  /** @type {number[]} */
  const experts = [];
  /** @type {number[]} */
  const masks = [];
  const { columns } = exportFormats[name];
  const files = [
    await createJsonLinesFile(join(folder, `${name}.jsonl`), columns),
    await createParquetFile(join(folder, `${name}.parquet`), columns),
  ];
  for (const group of groups) {
    const place = (/** @type {{ tokens: Uint32Array }} */ { tokens }) => {
      const offset = experts.length;
      experts.push(...expertsOf(tokens));
      const shape = /** @type {const} */ ([tokens.length - 1, 3, 2]);
      return { file: `${name}.routed-experts.bin`, offset, dtype: /** @type {const} */ ("uint8"), shape };
    };
    const context = {
      decode: (/** @type {Uint32Array} */ tokens) => tokens.join(" "),
      toolsOf: () => tools,
      expertsOf: place,
      samplingMaskOf: (/** @type {{ tokens: Uint32Array, sampledMask: Uint8Array }} */ sample) => {
        const lists = keptOf(sample);
        const offset = masks.length * 4;
        for (const list of lists) masks.push(list.length, ...list);
        const kept = lists.reduce((sum, list) => sum + list.length, 0);
        return { file: `${name}.sampling-masks.bin`, offset, tokens: lists.length, ids: kept };
      },
    };
    // Plain JavaScript knows the shapes, not the unions.
    const whole = /** @type {import("../../dist/export/index.js").GroupToExport} */ (/** @type {unknown} */ (group));
    const { rows } = exportGroup(whole, exportFormats[name], {
      ...context,
      where: () => true,
      turnRewards: exportFormats[name].holdsTurnRewards ? "keep" : "ignore",
    });
    for (const file of files) await file.write(rows);
  }
  for (const file of files) await file.close();
  if (masks.length > 0) writeFileSync(join(folder, `${name}.sampling-masks.bin`), Uint32Array.from(masks));
  if (experts.length > 0) writeFileSync(join(folder, `${name}.routed-experts.bin`), Uint8Array.from(experts));
}
const samples = groups.flatMap(({ episodes, groupIndex }) =>
  episodes.flatMap(({ episode, result, index }) =>
    result.samples.map((sample) => ({
      group_index: groupIndex,
      rollout_id: index,
      episode_id: episode.id,
      branch: sample.branch,
      weight: 1 / result.samples.length,
      tokens: [...sample.tokens],
      loss_mask: [...sample.lossMask],
      sampled_mask: [...sample.sampledMask],
      logprobs: sample.logprobs === null ? null : [...sample.logprobs].map((one) => (Number.isNaN(one) ? 0 : one)),
      reward: sample.reward,
      experts: expertsOf(sample.tokens),
      kept: keptOf(sample),
      turns: turnSpans(sample, episode.trajectory, episode.grade.turnRewards),
    })),
  ),
);
writeFileSync(join(folder, "samples.json"), JSON.stringify(samples));
const messages = groups.flatMap(({ episodes }) => episodes.map(({ episode }) => episode.messages.length));
writeFileSync(join(folder, "messages.json"), JSON.stringify(messages));
