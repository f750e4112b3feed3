import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "scripts/**/*.test.ts", "examples/**/*.test.ts"],
    pool: "threads",
    isolate: false,
    testTimeout: 60_000,
  },
});
