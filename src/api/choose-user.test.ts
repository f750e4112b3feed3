import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createToolCalling } from "../agents/index.ts";
import { ConfigurationError, type EnvironmentSource } from "../core/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { chooseModel } from "./choose-model.ts";
import { chooseStrategy } from "./choose-user.ts";
import { readOptions } from "./options.ts";

const settingsOf = async (options: object) =>
  (await readOptions({ env: "bookshop", engine: "expert", ...options })).settings;

const models = sharedFolder("models");

describe("calls several", () => {
  const environment = bookshopSource();
  const oneCall: EnvironmentSource = { ...environment, name: "tau-bench/retail", calls: "one" };

  it.each([
    [oneCall, {}, '"tau-bench/retail" carries out one, as its reference does; leave --calls out'],
    [environment, { strategy: "react" }, 'a turn of strategy "react" is one action; use --strategy tool-calling'],
    [environment, { strategy: createToolCalling() }, "given as a value decides it itself; give it the option calls"],
  ])("is refused where nothing would carry them out", async (source, options, message) => {
    const { strategy } = options as { readonly strategy?: unknown };
    const parts = typeof strategy === "object" ? { strategy: createToolCalling() } : {};
    const named = typeof strategy === "object" ? {} : options;
    const settings = await settingsOf({ ...named, calls: "several" });
    const choosing = chooseStrategy(settings, source, { cwd: ".", parts });
    await expect(choosing).rejects.toThrow(ConfigurationError);
    await expect(choosing).rejects.toThrow(message);
  });

  it.skipIf(models === null)("leaves out our instruction to call one tool a turn", async () => {
    const promptOf = async (calls: "one" | "several"): Promise<string> => {
      const settings = await settingsOf({ engine: "sglang", model: join(models ?? "", "qwen2.5-instruct"), calls });
      const { renderer } = await chooseModel(settings, ".");
      const { tools } = environment.open(environment.taskset("test").task(0));
      return renderer.renderPrompt([{ role: "user", content: "Hi" }], tools).text;
    };
    const theirs = "You may call one or more functions to assist with the user query.";
    const [one, several] = [await promptOf("one"), await promptOf("several")];
    expect(one.split("In every turn, call at most one function.")).toHaveLength(2);
    expect(one).not.toContain(theirs);
    expect(several).toContain(theirs);
    expect(several).not.toContain("call at most one function");
  });

  it("is one by default", async () => {
    expect((await settingsOf({})).calls).toBe("one");
    await expect(settingsOf({ calls: "two" })).rejects.toThrow("one or several");
  });
});
