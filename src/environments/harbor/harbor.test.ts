import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { harborSource } from "./index.ts";
import { hasBubblewrap } from "./sandbox.test-helper.ts";

const examples = fileURLToPath(new URL("../../../examples/harbor", import.meta.url));
const ending = { outcome: "completed" } as const;

describe.skipIf(!hasBubblewrap())("the tasks in examples/harbor", async () => {
  const source = await harborSource(examples);
  const taskset = source.taskset("all");
  const tasks = Array.from({ length: taskset.size }, (_, index) => taskset.task(index));

  it.each(tasks)("$id: its solution earns 1, and nothing earns 0", async (task) => {
    const idle = await source.open(task);
    const nothing = await idle.grade(ending);
    await idle.close();
    const solved = await source.open(task);
    const output = await solved.solve();
    const done = await solved.grade(ending);
    await solved.close();
    expect({ nothing: nothing.reward, done: done.reward, output, log: done.log }).toEqual({
      nothing: 0,
      done: 1,
      output: "",
      log: "",
    });
  });
});
