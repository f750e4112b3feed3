import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { loadUser, type SelectUserOptions, userNames } from "./on-demand.ts";
import { selectUser } from "./select-user.ts";

const options: SelectUserOptions = {
  model: { model: "m", url: "http://127.0.0.1:1" },
  human: { input: new PassThrough(), output: new PassThrough() },
  lines: ["hello"],
  exchanges: [],
};

// A call that throws is a rejection, too.
describe.each([
  ["selectUser()", async (...given: Parameters<typeof selectUser>) => selectUser(...given)],
  ["loadUser()", loadUser],
])("%s", (_, select) => {
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
    await expect(select("scripted")).rejects.toThrow('it has no lines; give them in the option "lines"');
    await expect(select("replay")).rejects.toThrow('it has no exchanges; give them in the option "exchanges"');
    await expect(select("verify")).rejects.toThrow('Cannot make user "verify": it has no model');
  });
});
