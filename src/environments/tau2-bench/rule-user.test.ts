import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import type { Environment, UserLine, UserSimulator } from "../../core/index.ts";
import { pythonStr } from "../../python-semantics/index.ts";
import { loadTau2Data, type Tau2Task, tau2Source, telecomRuleUser } from "./index.ts";

const folder = sharedFolder("tau2-bench");
const completed = { outcome: "completed" } as const;

/**
 * Lets the user act until it says something; returns that text, and whether the conversation is
 * over.
 */
async function listen(
  environment: Environment,
  user: UserSimulator,
  first: UserLine,
): Promise<{ readonly isOver: boolean; readonly text: string }> {
  const side = environment.userSide!;
  for (let line = first; ;) {
    const { results, endsEpisode } = await side.act(line);
    if (endsEpisode || line.type !== "calls")
      return { isOver: endsEpisode || line.type === "hang-up", text: line.text };
    line = await user.observe!(results, { side });
  }
}

/** An agent that knows the solution: makes its own calls, and requests the user's by tool name. */
async function solve(environment: Environment, user: UserSimulator, { criteria }: Tau2Task): Promise<void> {
  const side = environment.userSide!;
  let heard = await listen(environment, user, await user.open({ side }));
  for (const { requestor, name, arguments: given } of criteria?.actions ?? []) {
    if (heard.isOver) return;
    if (requestor === "assistant") await environment.call({ name, arguments: given });
    else {
      const request = `Please do this on your phone: ${name} ${[...given.values()].map(pythonStr).join(" ")}`;
      await environment.receiveUtterance(request);
      heard = await listen(environment, user, await user.reply(request, { side }));
    }
  }
  for (let turn = 0; turn < 8 && !heard.isOver; turn++) {
    const request = turn === 0 ? "Please run can_send_mms, run_speed_test and check_status_bar." : "Goodbye.";
    await environment.receiveUtterance(request);
    heard = await listen(environment, user, await user.reply(request, { side }));
  }
}

describe.skipIf(folder === null)("telecomRuleUser() (skipped without ../shared/tau2-bench)", async () => {
  const data = folder === null ? null! : await loadTau2Data({ domain: "telecom", folder });

  test("an agent that knows the solution solves every task with it", async () => {
    const source = await tau2Source(data);
    const tasks = await data.tasks("base");
    const failed: string[] = [];
    for (const [index, task] of tasks.entries()) {
      const given = source.taskset("base").task(index);
      const environment = source.open(given);
      await solve(environment, telecomRuleUser().create(given, { seed: 1 }), task);
      if ((await environment.grade(completed)).reward !== 1) failed.push(task.id);
    }
    expect(failed).toEqual([]);
  });

  test("it says why it calls and what it knows, in the words of the scenario, and loses patience", async () => {
    const source = await tau2Source(data);
    const given = source.taskset("base").task(0);
    const { userSide: side = null } = source.open(given);
    const user = telecomRuleUser().create(given, { seed: 1 });
    const first = await user.open({ side });
    expect(first.text).toMatch(/John Smith/);
    expect(first.text).not.toMatch(/Task instructions|\t/);
    expect((await user.reply("What is your phone number?", { side })).text).toMatch(/555-123-2002/);
    const lines = [];
    for (let turn = 0; turn < 8; turn++) lines.push((await user.reply("Hm.", { side })).type);
    expect(lines).toContain("hang-up");
  });

  test("it plays no other domain, and none without tools", async () => {
    const retail = await tau2Source(await loadTau2Data({ domain: "retail", folder: folder! }));
    expect(() => telecomRuleUser().create(retail.taskset("base").task(0), { seed: 1 })).toThrow("tau2-bench/telecom");
    const given = (await tau2Source(data)).taskset("base").task(0);
    await expect(telecomRuleUser().create(given, { seed: 1 }).open()).rejects.toThrow("gives it no tools");
  });
});
