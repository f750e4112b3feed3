// `example` as its users start it: the program in a process of its own, read from TypeScript by the
// Node that runs this test.

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");

async function example(...argv: readonly string[]) {
  const program = [join(root, "dist/cli/main.js"), "example", ...argv];
  return promisify(execFile)(process.execPath, program).then(
    (done) => ({ ...done, code: 0 }),
    (error: unknown) => error as { readonly code: number; readonly stdout: string; readonly stderr: string },
  );
}

it("lists every numbered example with what it is, and runs one", async () => {
  const { stdout } = await example();
  const files = (await readdir(join(root, "examples"))).filter((file) => /^\d\d-\S+(?<!\.test)\.ts$/.test(file));
  expect(files.length).toBeGreaterThanOrEqual(12);
  for (const file of files) {
    const name = file.replace(".ts", "");
    expect(stdout).toMatch(new RegExp(`^${name} +[A-Z]`, "m"));
    expect(await readFile(join(root, "examples", file), "utf8")).toContain(
      `npx trainable-agents example ${name.slice(0, 2)}`,
    );
  }
  expect(
    Math.max(...stdout.split("\n").map((line) => (line.startsWith("Their files") ? 0 : line.length))),
  ).toBeLessThanOrEqual(80);
  const ran = await example("1");
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout).toMatch(/^user {8}Good morning\..*\n(.*\n)+reward {6}1\n$/m);
});

it.each([
  ["99", 'Cannot run example "99": it does not exist; use one of 01-an-environment, '],
  ["03-a-rolout", '12-a-service-as-a-world. Did you mean "03-a-rollout"?'],
])("refuses %s with what there is, and code 2", async (name, message) => {
  const { code, stdout, stderr } = await example(name);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toContain(message);
});
