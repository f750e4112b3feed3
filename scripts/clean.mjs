// Removes the output of builds and checks, so that a package never carries the output of a deleted
// source.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { root } from "./run-command.mjs";

for (const folder of ["dist", "build", "coverage"]) rmSync(join(root, folder), { recursive: true, force: true });
