// A faulty connection: a proxy that disturbs some of its connections, drawn by seed, in the middle
// of the server's reply. Coarser than the proxy of `trainable-agents/testing`, which knows
// requests: here connections include WebSockets.

import { connect, createServer } from "node:net";

/** @typedef {"none" | "delay" | "close" | "reset" | "garbage" | "silence"} LineFault */

/** A WebSocket text frame that is neither JSON nor HTTP. */
const garbage = Buffer.concat([Buffer.from([0x81, 7]), Buffer.from("garbage")]);

/**
 * @param {number} targetPort
 * @param {() => { readonly fault: LineFault, readonly afterBytes: number }} draw For each connection.
 */
export async function startFaultProxy(targetPort, draw) {
  /** @type {Record<string, number>} */
  const drawn = {};
  const server = createServer((client) => {
    const { fault, afterBytes } = draw();
    drawn[fault] = (drawn[fault] ?? 0) + 1;
    const upstream = connect(targetPort, "127.0.0.1");
    let passed = 0;
    let isBroken = false;
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ]) {
      one?.on("error", () => other?.destroy());
      one?.on("close", () => other?.destroy());
    }
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => {
      passed += bytes.length;
      const isWhole = fault === "none" || fault === "delay" || passed < afterBytes;
      if (isBroken) return;
      if (isWhole) {
        setTimeout(() => client.destroyed || client.write(bytes), fault === "delay" ? 30 : 0);
        return;
      }
      isBroken = true;
      if (fault === "close") client.end(bytes.subarray(0, Math.floor(bytes.length / 2)));
      else if (fault === "reset") client.resetAndDestroy();
      else if (fault === "garbage") client.write(garbage);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { port: address.port, drawn, close: () => void server.close() };
}

/** @param {number} seed */
export function lineFaults(seed, share = 0.5) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const faults = /** @type {const} */ (["delay", "close", "reset", "garbage", "silence"]);
  return () => {
    const isFaulty = next() < share;
    const fault = faults[Math.floor(next() * faults.length)] ?? "none";
    return { fault: isFaulty ? fault : /** @type {LineFault} */ ("none"), afterBytes: Math.floor(next() * 1500) };
  };
}
