// The program of one thread: receives orders, runs the scheduler while it has work, and reports the
// results. It never blocks while it has work: between two steps it reads the orders that have
// arrived.

import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";

import { Decoder } from "../../learner/model/index.ts";
import { Scheduler } from "./scheduler.ts";
import type { FromThread, ThreadSetup, ToThread } from "./engine-threads.ts";

const port = parentPort;
if (port === null) throw new Error("Cannot run: this program is for a worker thread of the embedded engine.");

const { config, kernels, weights, weightVersion, maxRows, maxSequences, pages } = workerData as ThreadSetup;
const shared = new Float32Array(weights);
const decoder = new Decoder({ config, kernels, weights: shared, maxRows, maxSequences, pages });
const streaming = new Set<number>();
const scheduler = new Scheduler(
  { decoder, maxSequences, pages, weightVersion },
  {
    onToken: (id, token, logprob) => {
      if (streaming.has(id)) send({ type: "tokens", id, ids: [token], logprobs: [logprob] });
    },
    onFinish: (id, finished) => {
      streaming.delete(id);
      send({ type: "done", id, finished });
    },
    onScored: (id, scores) => send({ type: "done", id, finished: scores }),
    onFault: (id, problem) => {
      streaming.delete(id);
      send({ type: "failed", id, problem });
    },
  },
);
let isPaused = false;

port.on("message", (message: ToThread) => {
  execute(message);
  for (;;) {
    for (;;) {
      const next = receiveMessageOnPort(port);
      if (next === undefined) break;
      execute(next.message as ToThread);
    }
    if (isPaused || scheduler.isIdle) return;
    scheduler.step();
  }
});

function execute(message: ToThread): void {
  switch (message.type) {
    case "generate":
      if (message.streams) streaming.add(message.id);
      scheduler.add(message.id, message.prompt, message.params);
      return;
    case "score":
      scheduler.addScore(message.id, message.request);
      return;
    case "abort":
      scheduler.abort(message.id);
      return;
    case "pause":
      isPaused = true;
      if (message.mode === "abort") scheduler.abortAll();
      if (message.mode === "retract") scheduler.retractAll();
      break;
    case "continue":
      isPaused = false;
      break;
    case "take-weights":
      scheduler.setWeights(shared, message.weightVersion);
      break;
    case "flush-cache":
      scheduler.flushCache();
      break;
    default:
      message satisfies never;
  }
  send({ type: "done", id: message.id, finished: null });
}

function send(message: FromThread): void {
  port?.postMessage(message);
}
