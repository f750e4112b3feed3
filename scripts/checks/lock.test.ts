import { expect, test } from "vitest";

import { findLockProblems } from "./lock.mjs";

const problemsOf = (packages: object) => [...findLockProblems(JSON.stringify({ packages }))];

const complete = {
  "node_modules/tool": { version: "1.0.0", optionalDependencies: { "tool-linux": "1.0.0", "tool-windows": "1.0.0" } },
  "node_modules/tool-linux": { version: "1.0.0", optional: true },
  "node_modules/tool/node_modules/tool-windows": { version: "1.0.0", optional: true },
};

test("findLockProblems() accepts a lock that has every platform and no address", () => {
  expect(problemsOf(complete)).toEqual([]);
});

test("findLockProblems() finds a platform that is missing, an address and an install script", () => {
  const { "node_modules/tool-linux": _, ...incomplete } = complete;
  expect(problemsOf(incomplete)).toEqual([
    expect.stringContaining('lacks "tool-linux", which "node_modules/tool" has'),
  ]);
  expect(problemsOf({ ...complete, "node_modules/a": { resolved: "somewhere" } })[0]).toContain("says where");
  expect(problemsOf({ ...complete, "node_modules/a": { hasInstallScript: true } })[0]).toContain("runs a script");
});
