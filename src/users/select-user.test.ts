import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { optionsOf } from "../parts/setting.ts";
import { userNames, userRows } from "./on-demand.ts";
import { selectUser, type SelectUserOptions } from "./select-user.ts";

const options: SelectUserOptions = {
  model: { model: "m", url: "http://127.0.0.1:1" },
  human: { input: new PassThrough(), output: new PassThrough() },
  lines: ["hello"],
  exchanges: [],
};

// A call that throws is a rejection, too.
const select = async (...given: Parameters<typeof selectUser>) => selectUser(...given);

describe("selectUser()", () => {
  it.each(userNames)("makes user %s by its name", async (name) => {
    expect((await select(name, options)).name).toBe(name);
  });

  it.each(["", "LLM", "toString", "__proto__"])("refuses %j and lists what there is", async (name) => {
    await expect(select(name, options)).rejects.toThrow(ConfigurationError);
    await expect(select(name, options)).rejects.toThrow(
      "use one of agenda, llm, react, verify, reflection, human, scripted",
    );
  });

  it("says what the chosen user lacks", async () => {
    await expect(select("scripted")).rejects.toThrow('it has no lines; pass them in the option "lines"');
    await expect(select("replay")).rejects.toThrow('it has no exchanges; pass them in the option "exchanges"');
    await expect(select("verify")).rejects.toThrow('Cannot create user "verify": it has no model');
  });
});

describe("the registry of users", () => {
  // A person needs a terminal.
  it.each(Object.entries(userRows).filter(([name]) => name !== "human"))(
    "creates user %s of its name",
    async (name, row) => {
      const texts: Readonly<Record<string, string>> = { lines: "hello\n\nbye\n", exchanges: "" };
      const { createUser } = await row.load();
      const user = await createUser({
        options: { ...optionsOf(row.options, {}), userLines: "lines", replayUsers: "exchanges" },
        model: async () => options.model!,
        readText: async (file) => texts[file]!,
      });
      expect(user.name).toBe(name);
    },
  );

  it("refuses a scripted user without lines", async () => {
    const { createUser } = await userRows["scripted"]!.load();
    const given = { options: { userLines: null }, model: async () => options.model!, readText: async () => "" };
    await expect(async () => createUser(given)).rejects.toThrow("it has nothing to say");
  });
});
