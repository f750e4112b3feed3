import { expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { reasoningParser, reasoningParserNames, toolCallParser, toolCallParserNames } from "./index.ts";
import { ParserTable } from "./parser-table.ts";

it("every name has its parser without waiting where all formats are imported", () => {
  for (const name of toolCallParserNames) expect(toolCallParserNames).toContain(toolCallParser(name).name);
  for (const name of reasoningParserNames) expect(reasoningParserNames).toContain(reasoningParser(name).name);
});

it("load() imports a parser once, and get() gives only what is loaded", async () => {
  let imports = 0;
  const table = new ParserTable({
    task: "read",
    loaders: {
      late: async () => {
        imports++;
        return { name: "late" };
      },
    },
    aliases: { later: "late" },
    rows: [{ name: "row" }],
  });
  expect(table.names).toEqual(["late", "later", "row"]);
  expect(table.get("row")).toEqual({ name: "row" });
  expect(() => table.get("late")).toThrow(/is not loaded/);
  expect(await table.load("later")).toBe(await table.load("late"));
  expect(table.get("later").name).toBe("late");
  expect(imports).toBe(1);
  expect(() => table.get("latest")).toThrow(ConfigurationError);
  await expect(table.load("toString")).rejects.toThrow(ConfigurationError);
});
