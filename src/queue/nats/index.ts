// Public entry: the queue on a NATS broker, with JetStream. Its library is an optional peer, loaded
// when a queue is opened.

export { coordinateNats, type NatsQueueOptions } from "./nats-coordinator.ts";
export { parseNatsAddress, type NatsAddress } from "./nats-address.ts";
export { type NatsConnectOptions } from "./nats-link.ts";
export { connectNatsWorker, type NatsWorkerQueue } from "./nats-worker.ts";
