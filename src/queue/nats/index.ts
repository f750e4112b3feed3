// Public entry: the queue at a broker of NATS, with JetStream. Its library is an optional peer, loaded when a queue is opened.

export { coordinateNats, type NatsQueueOptions } from "./nats-coordinator.ts";
export { parseNatsAddress, type NatsAddress } from "./nats-address.ts";
export { type NatsConnectOptions } from "./nats-link.ts";
export { connectNatsWorker, type NatsWorkerQueue } from "./nats-worker.ts";
