import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test } from "vitest";

import { readManifest } from "./checks/manifest.mjs";
import { nodeProblem as programProblem } from "../src/cli/node-problem.ts";
import { modulesProblem, nodeProblem, oldestNode } from "./setup.mjs";

test("nodeProblem() accepts the releases that package.json promises, and no older one", () => {
  expect(readManifest().engines.node).toBe(`>=${oldestNode.join(".")}`);
  for (const version of ["20.19.0", "20.20.2", "22.0.0", "24.21.0"]) {
    expect(nodeProblem(version)).toBeNull();
    expect(programProblem(version)).toBeNull();
  }
  for (const version of ["18.20.8", "20.9.0", "20.18.3"]) {
    expect(nodeProblem(version)).toBe(
      `Cannot run with Node ${version}: trainable-agents needs Node >= 20.19. Install a newer Node and run the command again.`,
    );
    expect(programProblem(version)).toBe(nodeProblem(version));
  }
});

test("modulesProblem() refuses a link, whether or not it leads anywhere, and accepts a folder or none", () => {
  const place = mkdtempSync(join(tmpdir(), "setup-"));
  try {
    const at = (name: string): string => join(place, name);
    mkdirSync(at("installed"));
    symlinkSync(at("installed"), at("link"), "dir");
    symlinkSync(at("nowhere"), at("dangling"), "dir");
    expect(modulesProblem(at("installed"))).toBeNull();
    expect(modulesProblem(at("missing"))).toBeNull();
    for (const name of ["link", "dangling"]) {
      expect(modulesProblem(at(name))).toBe(
        `Cannot set up the clone: "${at(name)}" is a symbolic link, and npm would empty the folder that it points to; ` +
          "remove the link and run the command again, which installs a folder of its own.",
      );
    }
  } finally {
    rmSync(place, { recursive: true });
  }
});
