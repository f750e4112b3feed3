// `npm run verify -- router`: the real SGLang router in front of our servers. Installs it from
// PyPI, below build/.

import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { createSglangEngine } from "../../dist/engines/sglang/index.js";
import { root } from "../run-command.mjs";
import { checkContract, compareGreedy, makePrompts, requestOf } from "./against-embedded.mjs";
import { playEpisodes } from "./play-episodes.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";
import { use } from "./real-server.mjs";
import { createReport } from "./report.mjs";
import { freePorts, startServer } from "./servers.mjs";

const version = "0.3.2";
const program = join(root, "dist", "cli", "main.js");
const folder = join(root, "models", "bookshop-1m");

/**
 * Fields of a request that the router removes in transit; our engine knows which sampling
 * parameters it removes.
 */
const droppedFields = ["return_prompt_token_ids", "routing_key"];
const sent = {
  rid: "verify-0001",
  input_ids: [1, 2, 3],
  return_logprob: true,
  stream: false,
  priority: 0,
  extra_key: "k",
  return_prompt_token_ids: true,
  routing_key: "r",
  sampling_params: {
    max_new_tokens: 2,
    min_new_tokens: 1,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
    min_p: 0.1,
    repetition_penalty: 1.1,
    frequency_penalty: 0.1,
    presence_penalty: 0.1,
    stop_token_ids: [9],
    ignore_eos: true,
    no_stop_trim: true,
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    sampling_seed: 5,
    n: 1,
    logit_bias: { 5: 1 },
    stop_regex: "a",
    custom_params: {},
    stream_interval: 2,
  },
};

/** @param {{ readonly newest: boolean }} options */
export function installRouter({ newest }) {
  return makeEnvironment({
    name: newest ? "router-newest" : "router",
    packages: [newest ? "sglang-router" : `sglang-router==${version}`],
  });
}

/**
 * @param {{ readonly newest: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRouter({ newest }) {
  const { folder: work, bin } = installRouter({ newest });
  const report = createReport(`sglang-router ${versionOf(bin("python"), "sglang-router")}`);
  const workers = await Promise.all(
    (await freePorts(2)).map((at, index) =>
      startServer({
        name: "trainable-agents engine",
        command: process.execPath,
        parameters: [program, "engine", "--model", folder, "--port", String(at), "--threads", "1"],
        log: join(work, `worker-${index}.log`),
        url: `http://127.0.0.1:${at}`,
        readyPath: "/health",
        timeoutMs: 60_000,
      }),
    ),
  );
  /** @param {readonly string[]} urls @param {readonly string[]} flags */
  const startRouter = async (urls, ...flags) => {
    const [at = 0, metricsAt = 0] = await freePorts(2);
    return startServer({
      name: "the router",
      command: bin("python"),
      parameters: [
        ...["-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", String(at)],
        ...["--prometheus-port", String(metricsAt), "--log-level", "warn", ...flags, "--worker-urls", ...urls],
      ],
      log: join(work, `router-${at}.log`),
      url: `http://127.0.0.1:${at}`,
      readyPath: "/readiness",
      timeoutMs: 60_000,
    });
  };
  const urls = workers.map(({ url }) => url);
  const router = await startRouter(urls);

  await report.check("the contract of engines, whole and streamed", () =>
    checkContract((stream) => createSglangEngine({ url: router.url, stream, timeoutMs: 60_000 }), {
      contextTokens: 2048,
      settleMs: 500,
    }),
  );
  await report.check("greedy answers through it are the embedded engine's", async () => {
    const prompts = await makePrompts(folder, { count: 24, shortest: 40, longest: 1900 });
    return use(createSglangEngine({ url: router.url }), (engine) =>
      compareGreedy(engine, { folder, prompts, tolerance: 1e-3 }),
    );
  });
  await report.check("what it leaves of a request", async () => {
    const recorder = await startRecorder();
    const other = await startRouter([recorder.url]);
    await fetch(`${other.url}/generate`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-smg-routing-key": "episode-1" },
      body: JSON.stringify(sent),
    });
    const foretold = await use(createSglangEngine({ url: other.url }), (engine) =>
      engine.droppedParameters(Object.keys(sent.sampling_params)),
    );
    await Promise.all([other.kill(), recorder.close()]);
    return describeLosses(recorder.requests, foretold);
  });
  await router.kill();
  // The router's defaults do not suit this check: episodes that begin alike share a worker, retries
  // hide the effect of a dying worker on a client, and health checks are a minute apart. With only
  // seconds between checks paused workers count as unhealthy, so this router comes last.
  const bare = await startRouter(
    urls,
    ...["--policy", "round_robin", "--disable-retries"],
    ...["--health-check-interval-secs", "2", "--health-failure-threshold", "2"],
  );
  await report.check("128 episodes, one of two workers killed in the middle", async () => {
    const flags = ["--url", bare.url, "--model", folder, "--tasks", "0-31", "--group-size", "4"];
    const inTheMiddle = async () => workers[0]?.kill();
    const played = await playEpisodes([...flags, "--concurrency", "32"], { episodes: 128, inTheMiddle });
    const figure = `${played.figure}; ${played.before} episodes had ended before the kill`;
    // A kill that no call noticed does not prove anything.
    if (played.before >= 128 || played.retries === 0) throw new Error(figure);
    return figure;
  });
  await report.check("readiness, not health, says that no worker is left", async () => {
    await workers[1]?.kill();
    const status = async (/** @type {string} */ path) => (await fetch(bare.url + path)).status;
    for (let waited = 0; waited < 40 && (await status("/readiness")) === 200; waited++) {
      // The router notices by its own checks or by a call that fails.
      await use(createSglangEngine({ url: bare.url, timeoutMs: 10_000 }), (engine) =>
        engine.sample(requestOf([1, 2, 3])).catch(() => null),
      );
      await delay(500);
    }
    const isReady = await use(createSglangEngine({ url: bare.url }), (engine) => engine.isReady());
    const found = `/readiness ${await status("/readiness")}, /health ${await status("/health")}, isReady() ${isReady}`;
    if (found !== "/readiness 503, /health 200, isReady() false") throw new Error(found);
    return found;
  });
  await bare.kill();
  return report.finish();
}

/** @typedef {{ body: { readonly [name: string]: unknown, readonly sampling_params?: object }, key: string | undefined }} Recorded */

/** A worker that records its requests. */
async function startRecorder() {
  /** @type {Recorded[]} */
  const requests = [];
  const reply = {
    text: "",
    output_ids: [5, 6],
    meta_info: {
      id: "verify-0001",
      finish_reason: { type: "length", length: 2 },
      prompt_tokens: 3,
      completion_tokens: 2,
      weight_version: "default",
    },
  };
  const server = createServer((request, response) => void answer(request, response));
  /** @type {(request: import("node:http").IncomingMessage, response: import("node:http").ServerResponse) => Promise<void>} */
  const answer = async (request, response) => {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    if (request.url === "/generate") {
      const body = /** @type {Recorded["body"]} */ (JSON.parse(text));
      requests.push({ body, key: request.headers["x-smg-routing-key"]?.toString() });
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(request.url === "/generate" ? reply : { model_path: "m", is_generation: true }));
  };
  const [port = 0] = await freePorts(1);
  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(null)));
  const close = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${port}`, requests, close };
}

/** @param {readonly Recorded[]} requests @param {readonly string[]} foretold */
function describeLosses(requests, foretold) {
  const [request] = requests;
  if (request === undefined) throw new Error("nothing arrives");
  const { body, key } = request;
  const missing = (/** @type {object} */ given, /** @type {object} */ got) =>
    Object.keys(given).filter((name) => !(name in got));
  const lost = {
    sampling_params: missing(sent.sampling_params, body.sampling_params ?? {}),
    top: missing(sent, body),
  };
  const names = (/** @type {readonly string[]} */ list) => list.toSorted().join(", ");
  const figure = `drops ${names(lost.sampling_params)} of sampling_params, ${names(lost.top)} of the request`;
  if (names(lost.sampling_params) !== names(foretold) || names(lost.top) !== names(droppedFields)) {
    throw new Error(`${figure}; expected ${names(foretold)} and ${names(droppedFields)}`);
  }
  if (key !== "episode-1") throw new Error(`the header with the routing key arrives as ${key}`);
  return `${figure}; passes the header with the routing key`;
}
