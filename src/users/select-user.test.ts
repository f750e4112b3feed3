import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { selectUser, userNames, type SelectUserOptions } from "./select-user.ts";

const options: SelectUserOptions = {
  model: { model: "m", url: "http://127.0.0.1:1" },
  human: { input: new PassThrough(), output: new PassThrough() },
  lines: ["hello"],
  exchanges: [],
};

describe("selectUser()", () => {
  it.each(userNames)("makes user %s by its name", (name) => {
    expect(selectUser(name, options).name).toBe(name);
  });

  it.each(["", "LLM", "toString", "__proto__"])("refuses %j and lists what there is", (name) => {
    expect(() => selectUser(name, options)).toThrow(ConfigurationError);
    expect(() => selectUser(name, options)).toThrow(
      "use one of agenda, llm, react, verify, reflection, human, scripted",
    );
  });

  it("says what the chosen user lacks", () => {
    expect(() => selectUser("scripted")).toThrow('it has no lines; give them in the option "lines"');
    expect(() => selectUser("verify")).toThrow('Cannot make user "verify": it has no model');
  });
});
