import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createToolCalling } from "../agents/index.ts";
import { ConfigurationError, type EnvironmentSource } from "../core/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { chooseModel } from "./choose-model.ts";
import { chooseStrategy, chooseUser } from "./choose-user.ts";
import { readOptions } from "./options.ts";

const settingsOf = async (options: object) =>
  (await readOptions({ env: "bookshop", engine: "expert", ...options })).settings;

const models = sharedFolder("models");

describe("calls several", () => {
  const environment = bookshopSource();
  const oneCall: EnvironmentSource = { ...environment, name: "tau-bench/retail", calls: "one" };

  it.each([
    [oneCall, {}, '"tau-bench/retail" carries out one, as its reference does; remove --calls'],
    [environment, { strategy: "react" }, 'a turn of strategy "react" is one action; use --strategy tool-calling'],
    [environment, { strategy: createToolCalling() }, "given as a value decides this itself; set its option calls"],
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

describe("chooseUser()", () => {
  const environment = bookshopSource();
  const lines = join(import.meta.dirname, "choose-user.test.ts");
  const choose = async (options: object) =>
    chooseUser(await settingsOf(options), environment, { cwd: ".", env: {}, parts: {} });

  it("takes the user whose option is given, else the first that the environment lists", async () => {
    expect((await choose({})).name).toBe("agenda");
    expect((await choose({ userLines: lines })).name).toBe("scripted");
    expect((await choose({ userModel: "m", userUrl: "http://127.0.0.1:1/v1" })).name).toBe("llm");
  });

  it.each([
    [{ user: "scripted", userLines: lines, userModel: "m" }, "--user-model", "llm, react, verify or reflection"],
    [{ user: "agenda", userLines: lines }, "--user-lines", "scripted"],
    [{ user: "agenda", userCompat: "upstream" }, "--user-compat", "llm, react, verify or reflection"],
  ])("refuses an option of another user: %j", async (options, flag, users) => {
    await expect(choose(options)).rejects.toThrow(
      `Cannot use ${flag} with user "${options.user}": it has no effect there; remove it, or use --user ${users}.`,
    );
  });

  it("does not refuse what a preset gives to users in general", async () => {
    expect((await choose({ preset: "tau-bench", user: "scripted", userLines: lines })).name).toBe("scripted");
  });
});
