// The program of one thread of a trainer: it has a whole model of its own, adds up gradients over its share of the
// sequences, and then makes the same update as every other thread, from the same sum in the same order.

import { parentPort, workerData } from "node:worker_threads";

import { TrainingModel } from "../model/index.ts";
import { runPass } from "./run-pass.ts";
import type { ThreadAnswer, ThreadOrder, TrainerThreadSetup } from "./thread-protocol.ts";

const port = parentPort;
if (port === null) throw new Error("Cannot run: this program is for a worker thread of a trainer.");

const setup = workerData as TrainerThreadSetup;
const shared = new Float32Array(setup.weights);
const gradients = setup.gradients.map((buffer) => new Float32Array(buffer));
const own = gradients[setup.place]!;
const model = new TrainingModel({ ...setup, weights: shared });

port.on("message", (order: ThreadOrder) => {
  port.postMessage(obey(order));
});

function obey(order: ThreadOrder): ThreadAnswer {
  switch (order.type) {
    case "accumulate": {
      const passes = order.passes.map((pass) => runPass(model, pass, order.loss));
      own.set(model.gradients);
      return { type: "passes", passes };
    }
    case "evaluate": {
      const passes = withWeights(order.weights, () => order.passes.map((pass) => runPass(model, pass, null)));
      return { type: "passes", passes };
    }
    case "update": {
      addUp(model.gradients);
      const gradientNorm = model.update(order.options);
      model.clearGradients();
      if (setup.place === 0) shared.set(model.weights);
      return { type: "updated", gradientNorm };
    }
    case "read-optimizer":
      return { type: "optimizer", optimizer: model.optimizerState() };
    case "restore":
      model.restoreOptimizer(order.optimizer);
      return { type: "restored" };
    default:
      return order satisfies never;
  }
}

/** Thread by thread, so that every thread comes to the same sum. */
function addUp(sum: Float32Array): void {
  const [first, ...others] = gradients;
  sum.set(first!);
  for (const other of others) for (let index = 0; index < sum.length; index++) sum[index]! += other[index]!;
}

function withWeights<T>(others: SharedArrayBuffer | null, run: () => T): T {
  if (others === null) return run();
  const kept = model.weights.slice();
  model.weights.set(new Float32Array(others));
  model.weightsChanged();
  try {
    return run();
  } finally {
    model.weights.set(kept);
    model.weightsChanged();
  }
}
