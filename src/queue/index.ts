// Public entry: jobs for workers in other processes. The contract is in `job-queue.ts`.

export type * from "./job-queue.ts";
export { createMemoryQueue, type MemoryQueue, type MemoryQueueOptions } from "./memory-queue.ts";
export { readControl, readJob, readOrNotice, readReceipt, readReport } from "./messages.ts";
export { WorkerTable } from "./worker-table.ts";
export { connectToParent, createProcessPool, type ProcessPoolOptions } from "./process-pool.ts";
