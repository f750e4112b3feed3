// A task for the tests of this module.

import type { Task } from "../core/index.ts";

export function testTask(changes: Partial<Task> = {}): Task {
  return {
    id: "test/desk:test:0",
    environment: "test/desk",
    split: "test",
    index: 0,
    contentHash: "0".repeat(64),
    instruction: "Cancel my order.",
    agenda: null,
    ...changes,
  };
}
