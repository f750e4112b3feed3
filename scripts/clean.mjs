// Removes what builds and checks leave behind, so that a package never carries the output of a source that is gone.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { root } from "./run-command.mjs";

for (const folder of ["dist", "build", "coverage"]) rmSync(join(root, folder), { recursive: true, force: true });
