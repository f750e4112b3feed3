// A real nats-server for tests; the environment variable NATS_SERVER names its executable.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Path of the server; `undefined` skips tests that need a broker. */
export const natsServer = process.env["NATS_SERVER"];

/** A broker that can be killed, and whose disk can be wiped. */
export class Broker {
  readonly port: number;
  readonly #store: string;
  #server: ChildProcess | null = null;

  constructor(store: string, port: number) {
    this.#store = store;
    this.port = port;
  }

  async start(): Promise<void> {
    const flags = ["-js", "-sd", this.#store, "-a", "127.0.0.1", "-p", String(this.port)];
    this.#server = spawn(natsServer!, flags, { stdio: "ignore" });
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

  /** Kills the broker and wipes its disk. */
  async wipe(): Promise<void> {
    await this.kill();
    await rm(this.#store, { recursive: true, force: true });
    await this.start();
  }

  /** Stops the broker and removes its files. */
  async remove(): Promise<void> {
    await this.kill();
    await rm(this.#store, { recursive: true, force: true });
  }
}

export async function startBroker(): Promise<Broker> {
  const broker = new Broker(await mkdtemp(join(tmpdir(), "nats-")), await freePort());
  await broker.start();
  return broker;
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
