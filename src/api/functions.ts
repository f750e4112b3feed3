// The public functions of the package, each loaded when it is first called: a program that only
// rolls out loads neither viewer nor learner.

import type * as auditEngineModule from "./audit-engine.ts";
import type * as auditEnvironmentModule from "./audit-environment.ts";
import type * as auditTemplateModule from "./audit-template.ts";
import type * as compareRunsModule from "./compare-runs.ts";
import type * as envServerModule from "./env-server.ts";
import type * as evaluateModule from "./evaluate.ts";
import type * as exportRunModule from "./export-run.ts";
import type * as gatewayModule from "./gateway.ts";
import type * as initEnvironmentModule from "./init-environment.ts";
import type * as mergeRunModule from "./merge-run.ts";
import type * as rolloutModule from "./rollout.ts";
import type * as scoreRunModule from "./score-run.ts";
import type * as serveModule from "./serve.ts";
import type * as trainModule from "./train.ts";
import type * as verifyRowsModule from "./verify-rows.ts";
import type * as viewModule from "./view.ts";
import type * as workModule from "./work.ts";

/**
 * Runs groups of episodes and writes a run folder: run.json, episodes.jsonl and its index,
 * groups.jsonl, and samples.jsonl with `writeSamples`. Resolves when all groups are decided or a
 * signal stopped the run; failed episodes are data, in `totals`. Rejects with a
 * `ConfigurationError` for settings that the caller can correct, before the folder is made; with
 * the first fault of the store or of an export, after the folder says so.
 *
 * @example
 * const { totals, folder } = await rollout({ env: "bookshop", engine: "expert", groupSize: 8, tasks: "0-3" });
 * console.log(`${totals.episodesFinished} episodes in ${folder}, mean reward ${totals.meanReward}`);
 */
export const rollout: typeof rolloutModule.rollout = async (...given) =>
  (await import("./rollout.ts")).rollout(...given);

/**
 * Proves that exported rows hold what was sampled: every token, mask, logprob and weight version of
 * a row is compared with the record of its run, in one pass. Faults are data; resolves with `null`
 * if a signal stopped it, and rejects with a `ConfigurationError` for a file or run that cannot be
 * read.
 *
 * @example
 * const result = await verifyRows({ file: "rows.jsonl", run: "runs/one", complete: true });
 * console.log(result?.faults.map(({ message }) => message));
 */
export const verifyRows: typeof verifyRowsModule.verifyRows = async (...given) =>
  (await import("./verify-rows.ts")).verifyRows(...given);

/**
 * The settings that {@link rollout} would run with, with every open choice decided. Checks
 * everything except the server. Rejects with a `ConfigurationError` as `rollout` does.
 */
export const planRollout: typeof rolloutModule.planRollout = async (...given) =>
  (await import("./rollout.ts")).planRollout(...given);

/**
 * Runs episodes for any runs that the coordinators of a queue offer, until `drain` (running
 * episodes may finish within `grace` seconds) or `signal` aborts. Rejects with a
 * `ConfigurationError` when the broker rejects it, or when it cannot run the job it received:
 * another version of the package, other data, a model that does not exist here.
 *
 * @example
 * const { done } = await work({ queue: "nats://127.0.0.1:4222", drain: AbortSignal.timeout(60_000) });
 */
export const work: typeof workModule.work = async (...given) => (await import("./work.ts")).work(...given);

/**
 * Runs every task `trials` times, or reads results that exist (`from`), and resolves with pass^k,
 * pass@k, rewards, errors and who caused each failure. A run made here also gets results.json. A
 * low score is not an error. Rejects as `rollout` does.
 *
 * @example
 * const { evaluation } = await evaluate({ env: "bookshop", engine: "expert", trials: 4, tasks: "0-9" });
 * for (const { k, passHatK } of evaluation.passRates) console.log(`pass^${k} ${passHatK}`);
 */
export const evaluate: typeof evaluateModule.evaluate = async (...given) =>
  (await import("./evaluate.ts")).evaluate(...given);

/**
 * The settings that {@link evaluate} would run with, with every open choice decided. Checks
 * everything except the server.
 */
export const planEvaluation: typeof evaluateModule.planEvaluation = async (...given) =>
  (await import("./evaluate.ts")).planEvaluation(...given);

/**
 * Compares each later run with the first: tasks matched by content, the difference of each, an
 * interval of the mean difference by a bootstrap over tasks, a sign-flip test. Reads run folders,
 * results.json of an evaluation and files of other tools. Rejects with a `ConfigurationError` for
 * sources that cannot be read.
 *
 * @example
 * const { pairs } = await compareRuns({ runs: ["runs/before", "runs/after"] });
 * console.log(pairs.map(comparisonSentence));
 */
export const compareRuns: typeof compareRunsModule.compareRuns = async (...given) =>
  (await import("./compare-runs.ts")).compareRuns(...given);

/**
 * Trains a small model by reinforcement learning, or by imitation, and compares it before and after
 * on the same held-out tasks. Resolves when the time or the steps are used up, the policy has
 * collapsed, or a signal interrupted it; every checkpoint can be loaded and resumed. The same
 * options and number of threads give the same weights. Rejects with a `ConfigurationError` for
 * settings that the caller can correct, before anything is made; with a `DisagreementError` where
 * sampling and training disagree about logprobs.
 *
 * @example
 * const { comparison, checkpoint } = await train({ minutes: 2, model: "bookshop-nano" });
 * console.log(`${checkpoint}: ${comparison?.[0]?.before} before, ${comparison?.[0]?.after} after`);
 */
export const train: typeof trainModule.train = async (...given) => (await import("./train.ts")).train(...given);

/**
 * Examines the chat template of a model folder with its tokenizer: the renderer and parsers that
 * read it and why, the messages that make it rewrite tokens which the policy has seen or sampled,
 * and the parts of an answer that are lost when it is parsed and rendered again. Problems are data,
 * in `problems`; rejects with a `ConfigurationError` when there is nothing to examine.
 *
 * @example
 * const { isAppendOnly, problems } = await auditTemplate({ model: "./Qwen3-4B" });
 */
export const auditTemplate: typeof auditTemplateModule.auditTemplate = async (...given) =>
  (await import("./audit-template.ts")).auditTemplate(...given);

/**
 * Runs an environment without a model and reports problems that would break runs or make rewards
 * meaningless. Findings are data; rejects with a `ConfigurationError` when it cannot be loaded.
 *
 * @example
 * const { findings } = await auditEnvironment({ env: "bookshop", taskCount: 2 });
 * console.log(findings.filter(({ result }) => result === "fault"));
 */
export const auditEnvironment: typeof auditEnvironmentModule.auditEnvironment = async (...given) =>
  (await import("./audit-environment.ts")).auditEnvironment(...given);

/**
 * The environment that `env` names: built in, a module, or served at an address. For tests and
 * programs; a rollout takes the name. Rejects with a `ConfigurationError` that states the valid
 * values.
 *
 * @example
 * const source = await loadEnvironmentSource({ env: "bookshop" });
 * console.log(source.taskset("test").task(0).id);
 */
export const loadEnvironmentSource: typeof auditEnvironmentModule.loadEnvironmentSource = async (...given) =>
  (await import("./audit-environment.ts")).loadEnvironmentSource(...given);

/**
 * Checks a server against the contract of engines: ids, logprobs, stops, refusals, cancelled and
 * aborted calls, weight versions, pauses. Samples a few thousand tokens. Failed checks are data;
 * rejects with a `ConfigurationError` when the server cannot be examined.
 *
 * @example
 * const { checks } = await auditEngine({ url: "http://127.0.0.1:30000" });
 * console.log(checks.filter(({ result }) => result === "failed"));
 */
export const auditEngine: typeof auditEngineModule.auditEngine = async (...given) =>
  (await import("./audit-engine.ts")).auditEngine(...given);

/**
 * Writes the episodes of one or more runs as the rows that a trainer reads. Every sampled token is
 * in exactly one row or is left out with a reason. Resolves with `null` when a signal stopped it.
 * Rejects with a `ConfigurationError` for settings that the caller can correct, and with an `Error`
 * for a token that would be lost or trained twice; no file is written then.
 *
 * @example
 * await exportRun({ runs: "runs/one", format: "verl", output: "train.parquet", where: "reward == 1" });
 */
export const exportRun: typeof exportRunModule.exportRun = async (...given) =>
  (await import("./export-run.ts")).exportRun(...given);

/**
 * Writes the episodes that count, in the order of the index, into a new run folder without shards:
 * for programs that read `episodes.jsonl` themselves, and to copy a run as a few files. Readers of
 * this package need no merge. Resolves with `null` if the signal stopped it. Rejects with a
 * `ConfigurationError` for a run without shards, for one in progress, and for a line that differs
 * from what was written; then no folder is made. Journals of episodes in flight are not copied: a
 * merged run that is resumed starts these episodes again.
 *
 * @example
 * const merged = await mergeRun({ run: "runs/large", out: "runs/large-merged" });
 */
export const mergeRun: typeof mergeRunModule.mergeRun = async (...given) =>
  (await import("./merge-run.ts")).mergeRun(...given);

/**
 * Scores the sampled tokens of a run under a teacher's weights, and writes the logprobs into
 * `teacher-scores.jsonl` of its folder, from which exports take them. An episode is scored once,
 * however often the call is interrupted and repeated. Rejects with a `ConfigurationError` for
 * settings that the caller can correct, and with the failure of the engine that retries did not
 * cure; what was scored until then is kept.
 *
 * @example
 * const { reverseKl } = await scoreRun({ run: "runs/one", teacher: "embedded", model: "bookshop-1m" });
 */
export const scoreRun: typeof scoreRunModule.scoreRun = async (...given) =>
  (await import("./score-run.ts")).scoreRun(...given);

/**
 * Serves the episodes of an environment over MCP, at `/mcp` below the address, and over OpenEnv, at
 * `/ws`. Resolves when requests are accepted; rejects with a `ConfigurationError` for settings that
 * the caller can correct.
 *
 * @example
 * const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0" });
 * // ... a client that connects to `${server.url}/mcp?task=17&seed=3` ...
 * await server.close();
 */
export const serveEnvironment: typeof envServerModule.serveEnvironment = async (...given) =>
  (await import("./env-server.ts")).serveEnvironment(...given);

/**
 * Writes an environment with tools, tasks, a grader, a test and a README into a new folder. Rejects
 * with a `ConfigurationError` if the folder is not empty, without changing it.
 *
 * @example
 * const { folder } = await initEnvironment({ name: "museum-tours", to: "/tmp/museum-tours-of-an-example" });
 */
export const initEnvironment: typeof initEnvironmentModule.initEnvironment = async (...given) =>
  (await import("./init-environment.ts")).initEnvironment(...given);

/**
 * Serves a policy, or a model behind an API (`agentModel`, `agentUrl`), to agent programs, over
 * Chat Completions, Messages and Responses. `out` is required. Resolves when requests are accepted.
 * Rejects with a `ConfigurationError` for settings that the caller can correct.
 *
 * @example
 * const running = await gateway({ engine: "expert", listen: "127.0.0.1:0", out: "runs/gateway" });
 * const { id, key } = await running.open({ task: "first" });
 * // ... a program that uses `${running.url}/v1` with this key ...
 * await running.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
 * await running.end(id);
 * await running.close();
 */
export const gateway: typeof gatewayModule.gateway = async (...given) =>
  (await import("./gateway.ts")).gateway(...given);

/**
 * Serves rollouts over HTTP, for a trainer that requests groups or takes batches. Requests are kept
 * in the folder `out`, which is required: the next service of that folder resumes them. Resolves
 * when requests are accepted. Rejects with a `ConfigurationError` for settings that the caller can
 * correct.
 *
 * @example
 * const service = await serve({ env: "bookshop", listen: "127.0.0.1:0", out: "runs/service" });
 * console.log(`${service.url}/openapi.json`);
 * await service.close();
 */
export const serve: typeof serveModule.serve = async (...given) => (await import("./serve.ts")).serve(...given);

/**
 * Serves a page that shows runs, finished or in progress. Resolves when it can be opened; rejects
 * with a `ConfigurationError` for settings that the caller can correct.
 *
 * @example
 * const viewer = await view({ sources: ["runs/first"], listen: "127.0.0.1:0" });
 * // ... open viewer.url in a browser ...
 * await viewer.close();
 */
export const view: typeof viewModule.view = async (...given) => (await import("./view.ts")).view(...given);

/**
 * Writes the content of {@link view} into one HTML file that opens from a disk: an episode, the
 * episodes that an expression selects, a comparison of two runs, or a training; or the marks of a
 * run as labels, if the file ends in ".json". Resolves with its size in bytes; rejects as `view`
 * does.
 *
 * @example
 * await exportView({ sources: ["runs/first"], episode: "36", file: "episode-36.html" });
 */
export const exportView: typeof viewModule.exportView = async (...given) =>
  (await import("./view.ts")).exportView(...given);
