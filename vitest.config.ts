// Tests lie beside what they test; those of the whole lie in tests/. Threads without isolation: our modules have no global state, and a file then costs
// milliseconds instead of a fresh module graph.

import { availableParallelism } from "node:os";

import { defineConfig } from "vitest/config";

export default defineConfig({
  // The player of golden files imports the package by "#src/...": the build when it runs as a program, the sources here.
  ssr: { resolve: { conditions: ["trainable-agents-source", "node", "import", "default"] } },
  test: {
    include: ["src/**/*.test.ts", "scripts/**/*.test.ts", "examples/**/*.test.ts", "tests/**/*.test.ts"],
    setupFiles: ["scripts/vitest-setup.ts"],
    pool: "threads",
    isolate: false,
    // Tests that wait, for processes and servers mostly, leave a core idle: on few cores one more worker than those.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    testTimeout: process.env["FULL"] === "1" ? 600_000 : 60_000,
  },
});
