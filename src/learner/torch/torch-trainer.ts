// The trainer in the Python process, over HTTP on this machine. The weights never leave that
// process: an update changes those that the engine samples from, and publishing only names them.

import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import { createHttpPool, parseBaseUrl } from "../../http/index.ts";
import { jsonOf } from "../../lib/text.ts";
import type { LossOutcome, LossSequence, PolicyTrainer, SequenceOutcome } from "../index.ts";

export interface TorchTrainer extends PolicyTrainer {
  /** Outcomes of the model without its adapter. */
  evaluateBase(sequences: readonly LossSequence[]): Promise<readonly SequenceOutcome[]>;
  /** Names the weights, and forgets what was computed with earlier ones. */
  publish(version: string): Promise<void>;
  /** Writes the adapter and the optimizer's state into a folder, which must exist. */
  save(folder: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Creates the trainer of the process at `url`. `errors` returns what the process wrote, for the
 * message if it has died.
 */
export function createTorchTrainer(url: string, errors: () => string): TorchTrainer {
  const pool = createHttpPool({ boundary: "engine", connections: 2 });
  const base = parseBaseUrl(url, { what: "torch process" });

  /** Rejects with the message of the process; a step may take any time. */
  async function call(path: string, body: unknown): Promise<Readonly<Record<string, unknown>>> {
    const request = { base, method: "POST", path, headers: { "content-type": "application/json" } } as const;
    let answer;
    try {
      answer = await pool.request({ ...request, body: JSON.stringify(body) }, { maxBytes: 2 ** 28 });
    } catch (error) {
      if (!(error instanceof AttributedError)) throw error;
      const last = errors().trim().split("\n").at(-1) ?? "";
      throw new Error(
        `Cannot train: the Python process does not answer (${error.failure.code})${last === "" ? "" : `, its last line is "${last}"`}; ` +
          "if it was killed for its memory, give a smaller model or fewer --groups, and continue with --resume.",
        { cause: error },
      );
    }
    const reply = jsonOf(answer.body.toString("utf8"));
    const fields = (typeof reply === "object" && reply !== null ? reply : {}) as Readonly<Record<string, unknown>>;
    if (answer.status === 200) return fields;
    const { message } = (fields["error"] ?? {}) as { readonly message?: unknown };
    const reason = typeof message === "string" ? message : `it answered ${answer.status}`;
    // A full disk may be freed, so the caller repeats the call.
    if (answer.status === 507) throw Object.assign(new Error(reason), { code: "ENOSPC" });
    throw new Error(`Cannot train: the Python process refused ${path}: ${reason}`);
  }

  return {
    accumulate: async (sequences, loss = {}) => {
      const reply = await call("/learner/accumulate", { sequences: sequences.map(toWire), loss });
      const sum = (name: string): number => requireNumber(reply[name], name);
      return {
        loss: sum("loss"),
        entropy: sum("entropy"),
        kl: sum("kl"),
        clipped: sum("clipped"),
        corrected: sum("corrected"),
        targets: sequences.reduce((total, { targets }) => total + targets.length, 0),
        sequences: outcomesIn(reply, sequences),
      } satisfies LossOutcome;
    },
    update: async ({ learningRate, maxGradientNorm = null, weightDecay = 0 }) => {
      const body = { learning_rate: learningRate, max_gradient_norm: maxGradientNorm, weight_decay: weightDecay };
      const { gradient_norm: norm } = await call("/learner/update", body);
      if (typeof norm === "number") return norm;
      throw new ConfigurationError(
        "Cannot update: the norm of the gradients is not a finite number, so the training diverged. The weights are as they were before; " +
          "lower the learning rate, or continue from an earlier checkpoint.",
      );
    },
    evaluateBase: async (sequences) =>
      outcomesIn(await call("/learner/evaluate", { sequences: sequences.map(toWire), base: true }), sequences),
    publish: async (version) => void (await call("/update_weight_version", { new_version: version })),
    save: async (folder) => void (await call("/learner/save", { folder })),
    close: () => pool.close(),
  };
}

function toWire(sequence: LossSequence): Readonly<Record<string, readonly number[] | null>> {
  const { tokens, targets, weights, advantages, sampledLogprobs, referenceLogprobs } = sequence;
  return {
    tokens: [...tokens],
    targets: [...targets],
    weights: [...weights],
    advantages: [...advantages],
    sampled_logprobs: sampledLogprobs === null ? null : [...sampledLogprobs],
    reference_logprobs: referenceLogprobs === null ? null : [...referenceLogprobs],
  };
}

function outcomesIn(
  reply: Readonly<Record<string, unknown>>,
  sequences: readonly LossSequence[],
): readonly SequenceOutcome[] {
  const list: unknown = reply["sequences"];
  const outcomes = (Array.isArray(list) ? list : []) as readonly Readonly<Record<string, unknown>>[];
  return sequences.map(({ targets }, index) => {
    const column = (name: string): Float32Array => {
      const values: unknown = outcomes[index]?.[name];
      if (Array.isArray(values) && values.length === targets.length && values.every((one) => typeof one === "number")) {
        return Float32Array.from(values as readonly number[]);
      }
      throw new Error(
        `Cannot train: the Python process answered without ${name} of sequence ${index}; update the package.`,
      );
    };
    return { logprobs: column("logprobs"), entropies: column("entropies") };
  });
}

function requireNumber(value: unknown, name: string): number {
  if (typeof value === "number") return value;
  throw new Error(`Cannot train: the Python process answered without ${name}; update the package.`);
}
