// The contract of queues against a real nats-server, whose program the variable NATS_SERVER names: `npm run verify -- queue` runs
// this with Debian's and with a newer one.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, test } from "vitest";
import { queueConformance } from "../queue-conformance.test-helper.ts";
import { connectNatsWorker, coordinateNats } from "./index.ts";

const program = process.env["NATS_SERVER"];
/** Short, since it really passes. */
const leaseMs = 2000;

/** A broker that can be killed, and whose disk can be wiped. */
class Broker {
  readonly #store: string;
  readonly port: number;
  #server: ChildProcess | null = null;

  constructor(store: string, port: number) {
    this.#store = store;
    this.port = port;
  }

  async start(): Promise<void> {
    const flags = ["-js", "-sd", this.#store, "-a", "127.0.0.1", "-p", String(this.port)];
    this.#server = spawn(program!, flags, { stdio: "ignore" });
    while (!(await isListening(this.port))) await sleep(20);
  }

  async kill(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }

  async wipe(): Promise<void> {
    await this.kill();
    await rm(this.#store, { recursive: true, force: true });
    await this.start();
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

describe.skipIf(program === undefined)("a queue at a broker of NATS", () => {
  let folder = "";
  let broker: Broker;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "nats-"));
    broker = new Broker(join(folder, "store"), await freePort());
    await broker.start();
  });
  afterAll(async () => {
    await broker.kill();
    await rm(folder, { recursive: true, force: true });
  });

  let queues = 0;
  const checks = queueConformance({
    mortal: null,
    open: async () => {
      const options = { address: `nats://127.0.0.1:${broker.port}/test-${queues++}`, waitMs: 5000 };
      const opened: { close(): Promise<void> }[] = [];
      const keep = <T extends { close(): Promise<void> }>(one: T): T => {
        opened.push(one);
        return one;
      };
      return {
        coordinate: async (handlers) => keep(await coordinateNats(handlers, { ...options, leaseMs })),
        connect: async (handlers) => keep(await connectNatsWorker(handlers, options)),
        passLeases: (leases) => sleep(leases * leaseMs),
        forget: () => broker.wipe(),
        close: async () => {
          for (const one of opened) await one.close();
        },
      };
    },
  });
  test.for(checks)("$name", async ({ run }) => run());
});
