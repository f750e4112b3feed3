// `--queue`: the broker that carries jobs to workers on other machines, as settings of coordinators
// and of workers.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import type { NatsConnectOptions } from "../queue/nats/index.ts";
import { parseNatsAddress } from "../queue/nats/nats-address.ts";
import { address, file, free, keyOf, section, type SettingValues, variable } from "../parts/setting.ts";
import { readKey } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";

export const queueSettings = section("The queue", {
  queue: address("an address like nats://127.0.0.1:4222 or nats://127.0.0.1:4222/my-run").help(
    "broker (nats-server with JetStream) whose workers run the episodes; after the address, the name of a queue that no other run uses (default: this process runs them)",
  ),
  queueTokenEnv: variable.help(
    "environment variable with the broker's token, or the password of the user named in --queue",
  ),
  queueCredentials: file.help(
    "credentials file for the broker (JWT and seed), or a file with the seed of an nkey",
    free,
  ),
  queueCa: file.help("CA certificate that signed the broker's certificate, in PEM", free),
  queueCert: file.help("client certificate for the broker, in PEM; needs --queue-key", free),
  queueKey: file.help("key of --queue-cert, in PEM", free),
});

type QueueValues = SettingValues<typeof queueSettings>;

/** Connection options of the queue; `null` if no queue is named. Throws a `ConfigurationError`. */
export function chooseQueue(values: QueueValues, { cwd, env }: Surroundings): NatsConnectOptions | null {
  const { queue, queueTokenEnv, queueCert, queueKey } = values;
  if (queue === null) {
    const beside = (Object.keys(queueSettings) as (keyof QueueValues)[]).find((name) => values[name] !== null);
    if (beside === undefined) return null;
    throw new ConfigurationError(`Cannot use --${keyOf(beside)}: no queue is named; add --queue.`);
  }
  parseNatsAddress(queue);
  if ((queueCert === null) !== (queueKey === null)) {
    throw new ConfigurationError(
      "Cannot use only one of --queue-cert and --queue-key: they belong together; pass both.",
    );
  }
  const pathOf = (name: keyof QueueValues): string | null => {
    const given = values[name];
    const path = given === null ? null : resolve(cwd, given);
    if (path === null || existsSync(path)) return path;
    throw new ConfigurationError(`Cannot read --${keyOf(name)} "${given}": there is no such file; correct its path.`);
  };
  return {
    address: queue,
    secret: readKey(env, queueTokenEnv, "--queue-token-env"),
    credentials: pathOf("queueCredentials"),
    tls: { ca: pathOf("queueCa"), cert: pathOf("queueCert"), key: pathOf("queueKey") },
  };
}
