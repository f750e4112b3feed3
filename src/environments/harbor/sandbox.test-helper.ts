// Helpers of tests of sandboxes: a check that this machine has them, tasks written for one test, and
// the processes of this machine whose arguments carry a mark.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/**
 * True where bubblewrap works: it is installed, and the machine allows its namespaces, which
 * containers often forbid. Elsewhere a run of Harbor tasks is refused.
 */
export function hasBubblewrap(): boolean {
  const asNobody =
    process.getuid?.() === 0 ? ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] : [];
  const sandbox = [
    "bwrap",
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
  ];
  const [file, ...args] = [...asNobody, ...sandbox, "true"];
  try {
    execFileSync(file, args, { stdio: "ignore", cwd: "/" });
    return true;
  } catch {
    return false;
  }
}

/** Writes a folder of tasks, each with its files by path; returns its path. */
export function writeTasks(tasks: Readonly<Record<string, Readonly<Record<string, string>>>>): string {
  const folder = mkdtempSync(join(tmpdir(), "harbor-tasks-"));
  for (const [name, files] of Object.entries(tasks)) {
    for (const [path, content] of Object.entries(files)) {
      const file = join(folder, name, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
  }
  return folder;
}

/** The files of a task with these tests. */
export function taskFiles(
  tests: string,
  { toml = "", ...files }: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  return {
    "task.toml": toml === "" ? '[environment]\nnetwork_mode = "no-network"\n' : toml,
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM scratch\nWORKDIR /app\n",
    "tests/test.sh": `#!/bin/bash\n${tests}\n`,
    ...files,
  };
}

/** Ids of the processes of this machine whose arguments contain the text. */
export function processesWith(text: string): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}
