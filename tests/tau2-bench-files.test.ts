import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

import { smallCheckout } from "../src/environments/tau2-bench/checkout/small-checkout.test-helper.ts";
import { createTestCli, type TestCli } from "../src/cli/cli.test-helper.ts";

async function cliWithCheckout(): Promise<TestCli> {
  const cli = await createTestCli();
  for (const [path, text] of smallCheckout) {
    const file = join(cli.folder, "checkout", path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  return cli;
}

const call = { id: "c", name: "create_task", arguments: { user_id: "ann", title: "Tea" }, requestor: "assistant" };
const made = '{"task_id": "task_1", "title": "Tea", "description": null, "status": "pending"}';

/**
 * A results file as upstream's runner writes it: one trial leaves the world unchanged, one creates
 * a task that was not requested, one breaks.
 */
function resultsFile(rewards: readonly (number | null)[]): {
  readonly info: object;
  readonly tasks: readonly object[];
  readonly simulations: readonly ({ readonly id: string } & Readonly<Record<string, unknown>>)[];
} {
  const said = (role: string, content: string) => ({ role, content, tool_calls: null });
  const quiet = [said("user", "Hello."), said("assistant", "Hello."), said("user", "###STOP###")];
  const busy = [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", id: "c", content: made, requestor: "assistant", error: false },
  ];
  const conversations = [quiet, [quiet[0], ...busy, ...quiet.slice(1)], []];
  const endings = ["user_stop", "user_stop", "infrastructure_error"];
  return {
    info: { environment_info: { domain_name: "mock", policy: "" } },
    tasks: [
      {
        id: "second",
        user_scenario: { instructions: "Ask." },
        evaluation_criteria: { actions: [], reward_basis: ["DB"] },
      },
    ],
    simulations: rewards.map((reward, trial) => ({
      id: `s${trial}`,
      task_id: "second",
      trial,
      termination_reason: endings[trial],
      reward_info: reward === null ? null : { reward },
      messages: conversations[trial],
    })),
  };
}

describe("eval --from a file of τ²-bench simulations", () => {
  const score = async (cli: TestCli, name: string, ...flags: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await cli.run("eval", "--from", name, ...flags);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return stdout;
  };

  it("gives pass^k of the recorded rewards without data, and confirms them with data", async () => {
    const cli = await cliWithCheckout();
    await writeFile(join(cli.folder, "results.json"), JSON.stringify(resultsFile([1, 0, null])));
    const plain = await score(cli, "results.json");
    expect(plain).toContain("tau2-bench/mock");
    expect(plain).toContain("3, 2 graded, 1 successes");
    expect(plain).toMatch(/infrastructure_error 1/);
    expect(plain).toMatch(/^ *1 +0\.500/m);
    expect(plain).toContain("0 of 3 runs");
    const confirmed = await score(cli, "results.json", "--data", "checkout");
    expect(confirmed).toContain("2 of 3 runs");
    expect(confirmed).toContain("2 confirmed, 0 not");
  });

  it("names a reward that the evaluation does not give", async () => {
    const cli = await cliWithCheckout();
    await writeFile(join(cli.folder, "results.json"), JSON.stringify(resultsFile([1, 1])));
    const stdout = await score(cli, "results.json", "--data", "checkout");
    expect(stdout).toContain("task 0, trial 1: recorded 1, the environment gives 0");
  });

  it("reads a folder with a file a simulation", async () => {
    const cli = await createTestCli();
    const { simulations, ...rest } = resultsFile([1, 0]);
    await mkdir(join(cli.folder, "run", "simulations"), { recursive: true });
    await writeFile(join(cli.folder, "run", "results.json"), JSON.stringify(rest));
    for (const one of simulations) {
      await writeFile(join(cli.folder, "run", "simulations", `${one.id}.json`), JSON.stringify(one));
    }
    expect(await score(cli, "run")).toContain("2, 2 graded, 1 successes");
  });

  it("takes several results together: a row for each domain, and one over the tasks of all", async () => {
    const cli = await createTestCli();
    const write = (name: string, domain: string, rewards: readonly (number | null)[]) =>
      writeFile(
        join(cli.folder, name),
        JSON.stringify({ ...resultsFile(rewards), info: { environment_info: { domain_name: domain, policy: "" } } }),
      );
    // The same task id in two domains denotes two tasks.
    await write("retail.json", "retail", [1, 0]);
    await write("airline.json", "airline", [1, 1]);
    await write("more.json", "airline", [0, 0]);
    const stdout = await score(cli, "retail.json", "--from", "airline.json");
    expect(stdout).toContain("2 results");
    expect(stdout).toMatch(/^ *tau2-bench\/airline +1 +2 +2 +1\.000 +1\.000 +1\.000$/m);
    expect(stdout).toMatch(/^ *tau2-bench\/retail +1 +2 +2 +0\.500 +0\.500 +0\.000$/m);
    expect(stdout).toMatch(/^ *overall +2 +4 +4 +0\.750 +0\.750 +0\.500$/m);
    // Two files of one domain are further trials of its tasks: 2 of 4, which gives 1 pair of 6.
    const three = await score(cli, "retail.json", "airline.json", "more.json");
    expect(three).toMatch(/^ *tau2-bench\/airline +1 +4 +4 +0\.500 +0\.500 +0\.167 +0\.000 +0\.000$/m);
    expect(three).toMatch(/^ *overall +2 +6 +6 +0\.500 +0\.500 +0\.083 +– +–$/m);
    const json = JSON.parse(await score(cli, "retail.json", "airline.json", "--json")) as {
      readonly domains: readonly { readonly title: string; readonly evaluation: { readonly successes: number } }[];
    };
    expect(json.domains).toMatchObject([
      { title: "tau2-bench/airline", evaluation: { successes: 2 } },
      { title: "tau2-bench/retail", evaluation: { successes: 1 } },
    ]);
    const twice = await cli.run("eval", "--from", "retail.json", "./retail.json");
    expect(twice).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("whose trials would count twice") as string,
    });
    const labels = await cli.run("eval", "--from", "retail.json", "more.json", "--labels", "labels.json");
    expect(labels.stderr).toContain("Cannot use --labels with several results");
  });

  it("refuses a file that is none by name", async () => {
    const cli = await createTestCli();
    await writeFile(join(cli.folder, "results.json"), '{"info": 1}');
    const { code, stderr } = await cli.run("eval", "--from", "results.json");
    expect(code).not.toBe(0);
    expect(stderr).toContain('Cannot score "results.json"');
  });
});

describe("prepare tau2-bench", () => {
  it("makes the folder of a checkout, and names what could not be read", async () => {
    const cli = await cliWithCheckout();
    const { code, stdout } = await cli.run("prepare", "tau2-bench", "--from", "checkout", "--to", "data");
    expect(code).toBe(0);
    expect(stdout).toContain("--env tau2-bench/retail --data data");
    expect(await readFile(join(cli.folder, "data", "mock", "policy.md"), "utf8")).toBe("# Be kind\r\n");
    const again = await cli.run("prepare", "tau2-bench", "--from", "checkout", "--to", "data");
    expect(again.stderr).toContain('Cannot prepare τ²-bench in "');
    await writeFile(join(cli.folder, "checkout", "src/tau2/domains/retail/tools.py"), "class RetailTools: pass");
    const broken = await cli.run("prepare", "tau2-bench", "--from", "checkout", "--to", "other");
    expect(broken.stderr).toContain('Cannot read "src/tau2/domains/retail/tools.py", line 1');
  });
});
