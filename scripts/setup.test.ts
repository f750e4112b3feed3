import { expect, test } from "vitest";

import { readManifest } from "./checks/manifest.mjs";
import { nodeProblem, oldestNode } from "./setup.mjs";

test("nodeProblem() accepts the releases that package.json promises, and no older one", () => {
  expect(readManifest().engines.node).toBe(`>=${oldestNode.join(".")}`);
  for (const version of ["20.19.0", "20.20.2", "22.0.0", "24.21.0"]) expect(nodeProblem(version)).toBeNull();
  for (const version of ["18.20.8", "20.9.0", "20.18.3"]) {
    expect(nodeProblem(version)).toBe(
      `Cannot run with Node ${version}: trainable-agents needs Node >= 20.19. Install a newer Node and run the command again.`,
    );
  }
});
