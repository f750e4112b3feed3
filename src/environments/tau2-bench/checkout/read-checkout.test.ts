import fc from "fast-check";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { sharedFolder } from "../../../../tests/conformance/shared-folder.ts";
import { ConfigurationError } from "../../../core/index.ts";
import { withFolder } from "../../checkout/with-folder.test-helper.ts";
import { loadTau2Data, prepareTau2Bench } from "../index.ts";
import { Modules, parseSource } from "./upstream.ts";
import { readTau2Checkout, readInstructions } from "./read-checkout.ts";
import { readDocstring } from "./read-docstring.ts";
import { readTools } from "./read-tools.ts";
import { agentText, judgeText, smallBank, smallCheckout, toolsSource } from "./small-checkout.test-helper.ts";

const toolsPath = "src/tau2/domains/mock/tools.py";

/** The tools of the small checkout, with some of its files changed. */
function toolsOf(changed: ReadonlyMap<string, string>): Promise<unknown> {
  const files = new Map([...smallCheckout, ...changed]);
  const read = async (path: string): Promise<string> => {
    const text = files.get(path);
    if (text === undefined)
      throw new ConfigurationError(`Cannot read "${path}", line 1: there is no such file; take it.`);
    return text;
  };
  return readTools(new Modules(read), toolsPath, "MockTools");
}

type WrittenTool = {
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: {
      readonly $defs?: Readonly<Record<string, unknown>>;
      readonly properties: Readonly<Record<string, unknown>>;
    };
  };
};

describe("readTools()", () => {
  it("makes schemas of signatures, docstrings and models, as the reference's libraries do", async () => {
    const written = (await withFolder(smallCheckout, (folder) => readTau2Checkout(folder))).get("mock/tools.json")!;
    const tools = JSON.parse(written) as WrittenTool[];
    expect(tools.map((tool) => tool.function.name)).toEqual(["mend", "look", "lock"]);
    const [mend, look, lock] = tools as [WrittenTool, WrittenTool, WrittenTool];
    expect(mend.function.description).toBe("Mends wheels.\n\nTwice, if need be.\n\nNote:\n    Bring the wheels.");
    expect(mend.function.parameters).toEqual({
      $defs: {
        Size: { description: "How large.", enum: ["s", "l"], title: "Size", type: "string" },
        Wheel: {
          properties: {
            number: { description: "Its number", title: "Number", type: "integer" },
            label: {
              anyOf: [{ type: "string" }, { type: "null" }],
              default: null,
              description: "A label",
              title: "Label",
            },
            size: { $ref: "#/$defs/Size", default: "s", description: "Its size" },
            spokes: { items: { type: "string" }, title: "Spokes", type: "array" },
          },
          required: ["number"],
          title: "Wheel",
          type: "object",
        },
      },
      properties: {
        wheels: {
          description: "The wheels,\none after another.",
          items: { anyOf: [{ $ref: "#/$defs/Wheel" }, { additionalProperties: true, type: "object" }] },
          title: "Wheels",
          type: "array",
        },
        shade: { description: "Their new shade.", enum: ["red", "green"], title: "Shade", type: "string" },
        how_often: { default: 2, title: "How Often", type: "integer" },
      },
      required: ["wheels", "shade"],
      title: "parameters",
      type: "object",
    });
    // Keys are sorted where the reference's library sorts them.
    expect(Object.keys(mend.function.parameters)).toEqual(["$defs", "properties", "required", "title", "type"]);
    expect(look.function).toEqual({ name: "look", description: "look", parameters: { properties: {}, title: "parameters", type: "object" } }); // prettier-ignore
    expect(lock.function.description).toBe("Locks.");
    expect(lock.function.parameters.properties["size"]).toEqual({
      anyOf: [{ $ref: "#/$defs/Size" }, { type: "string" }],
      default: "l",
      title: "Size",
    });
    expect(lock.function.parameters.$defs?.["Closed"]).toEqual({
      additionalProperties: false,
      description: "Takes nothing else.",
      properties: {
        any_of_it: { default: 3, title: "Any Of It" },
        by_name: { additionalProperties: { type: "number" }, title: "By Name", type: "object" },
      },
      required: ["by_name"],
      title: "Closed",
      type: "object",
    });
  });

  it.each([
    [
      "a second decorator",
      ["@is_tool(ToolType.READ)\n    def look", "@is_tool()\n    @cache\n    def look"],
      "decorated",
    ],
    [
      "a decorator of another origin",
      ["@is_tool(ToolType.READ)\n    def look", "@print(1)\n    def look"],
      "decorated",
    ],
    ["a tool that takes any number", ["def look(self)", "def look(self, *all)"], "no type"],
    ["a parameter without a type", ["def look(self)", "def look(self, a)"], "no type"],
    ["a type that is called", ["def look(self)", "def look(self, a: f())"], "this type is not known"],
    ["a name that is not bound", ["def look(self)", "def look(self, a: Unknown)"], "this type is not known"],
    ["a tool that is defined twice", ["def lock(", "def look("], "a second time"],
    ["a toolkit that extends another", ["(ToolKitBase)", "(ToolKitBase, Other)"], "extends more"],
    ["a description in another style", ["        Locks.\n", "        Locks.\n\n        :param a: b\n"], "Google"],
    ["a name from a missing module", ["data_model import", "no_model import"], "no such file"],
  ] as const)("refuses %s", async (_what, [from, to], problem) => {
    expect(toolsSource).toContain(from);
    const reading = toolsOf(new Map([[toolsPath, toolsSource.replace(from, to)]]));
    await expect(reading).rejects.toThrow(ConfigurationError);
    await expect(reading).rejects.toThrow(problem);
  });

  it("ends on modules that import each other in a circle, and on types without end", async () => {
    const circle = new Map([
      ["src/tau2/domains/mock/data_model.py", "from tau2.domains.mock.tools import Closed, Shade, Size, Wheel"],
    ]);
    await expect(toolsOf(circle)).rejects.toThrow("imported in a circle");
    const model = smallCheckout.get("src/tau2/domains/mock/data_model.py")!;
    const own = model.replace("Shade = Colour", "Shade = Shade");
    await expect(toolsOf(new Map([["src/tau2/domains/mock/data_model.py", own]]))).rejects.toThrow("nested more than");
    const selfish = model.replace("class Part(BaseModel)", "class Part(Wheel)");
    await expect(toolsOf(new Map([["src/tau2/domains/mock/data_model.py", selfish]]))).rejects.toThrow(
      ConfigurationError,
    );
  });

  it("reads changed sources or refuses them with file and line, and nothing else", async () => {
    const pieces = ['"', "'", '"""', "(", ")", "[", "]", ",", ":", "=", "|", "@", "\n", "\n    ", "\0", "*", "None", "int", "9".repeat(400), "[".repeat(3000)]; // prettier-ignore
    const edit = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      length: fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 300 })),
      insert: fc.oneof(fc.constantFrom("", ...pieces), fc.string({ unit: "binary", maxLength: 6 })),
    });
    const paths = [...smallCheckout.keys()].filter((path) => path.endsWith(".py"));
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...paths),
        fc.array(edit, { minLength: 1, maxLength: 3 }),
        async (path, edits) => {
          const changed = edits.reduce((text, { at, length, insert }) => {
            const position = Math.floor(at * text.length);
            return text.slice(0, position) + insert + text.slice(position + length);
          }, smallCheckout.get(path)!);
          const read = async (): Promise<void> => {
            await toolsOf(new Map([[path, changed]]));
            const source = (own: string, text: string) => parseSource(own, path.endsWith(own) ? changed : text);
            readInstructions(source("llm_agent.py", agentText), source("evaluator_nl_assertions.py", judgeText));
          };
          await read().catch((error: unknown) => {
            expect(error).toBeInstanceOf(ConfigurationError);
            expect(String(error)).toMatch(/Cannot read "[^"]+", line [1-9]\d*: /);
            refused++;
          });
        },
      ),
      { seed: 7, numRuns: 1500 },
    );
    expect(refused).toBeGreaterThan(100);
  });
});

describe("readDocstring()", () => {
  it("knows sections, indented continuations and types in brackets", () => {
    const told = readDocstring(
      "First.\n    More.\n\n    Args:\n        a (int): One:\n            two.\n        b: Three.\n    Else\n      c: no\n",
    );
    expect(told).toEqual({
      description: "First.\n\nMore.",
      parameters: new Map([["a", "One:\ntwo."], ["b", "Three."]]), // prettier-ignore
    });
    expect(readDocstring("")).toEqual({ description: null, parameters: new Map() });
    expect(readDocstring("A.\n\nArgs:\n    none")).toBe("an argument is described without a colon");
  });
});

describe("loadTau2Data()", () => {
  it("reads the same from a checkout and from what was prepared of it", async () => {
    await withFolder(smallCheckout, async (checkout) => {
      await withFolder(new Map(), async (folder) => {
        const { files } = await prepareTau2Bench({ from: checkout, to: folder });
        expect(files).toContain("telecom/tasks_base.json");
        const [read, prepared] = await Promise.all(
          [checkout, folder].map((place) => loadTau2Data({ domain: "mock", folder: place })),
        );
        expect(prepared!.fingerprint).toBe(read!.fingerprint);
        for (const data of [read!, prepared!]) {
          expect(data.prompts).toEqual({
            agent: "Mend what is broken.",
            goldAgent: "Do as the list says.",
            soloAgent: "Say {stop_function_name} at the end.",
            judge: "\n        Say what is true.\n        ",
          });
          expect((await data.tasks("base")).map(({ id }) => id)).toEqual(["second"]);
          expect(data.tools.map(({ name }) => name)).toEqual(["mend", "look", "lock"]);
        }
      });
    });
  });

  it.each([
    ["src/tau2/evaluator/evaluator_nl_assertions.py", "there is no such file"],
    ["data/tau2/domains/mock/user_db.json", "there is no such file"],
    ["data/tau2/user_simulator/simulation_guidelines.md", "there is no such file"],
  ])("refuses a checkout without %s by name", async (path, problem) => {
    await withFolder(new Map([...smallCheckout].filter(([name]) => name !== path)), async (folder) => {
      const loading = loadTau2Data({ domain: "mock", folder });
      await expect(loading).rejects.toThrow(ConfigurationError);
      await expect(loading).rejects.toThrow(`Cannot read "${path}" of the checkout "${folder}": ${problem}`);
    });
  });

  it("refuses prompts that are none", async () => {
    await withFolder(smallCheckout, async (checkout) => {
      const files = new Map(await readTau2Checkout(checkout)).set("prompts.json", '{"agent": 1}');
      await withFolder(files, async (folder) => {
        await expect(loadTau2Data({ domain: "mock", folder })).rejects.toThrow('it has no text "agent"');
      });
    });
  });
});

describe("the bank of a checkout", () => {
  const withBank = new Map([...smallCheckout, ...smallBank]);

  it("is read as lines of documents and tasks, with the searches first among the tools", async () => {
    const files = await withFolder(withBank, (folder) => readTau2Checkout(folder, { domains: ["banking_knowledge"] }));
    const read = (name: string): string => files.get(`banking_knowledge/${name}`)!;
    expect(
      read("documents.jsonl")
        .split("\n")
        .map((line) => line.slice(0, 9)),
    ).toEqual(['{"id": "a', '{"id": "b', ""]);
    const tools = JSON.parse(read("tools.json")) as WrittenTool[];
    expect(tools.map((tool) => tool.function.name)).toEqual(["KB_search", "grep", "look"]);
    expect(JSON.parse(read("discoverable_tools.json"))).toEqual({
      agent: { mend_1234: "Mends a thing.\n\nArgs:\n    name (string): Its name" },
      user: {},
    });
  });

  it("has the policy and the tools of the chosen way to the documents", async () => {
    await withFolder(withBank, async (folder) => {
      const all = await loadTau2Data({ domain: "banking_knowledge-full_kb", folder });
      const documents = "## Cards\n\nA card is free.\nNo fee.\n\n---\n\n## Fees\n\nA fee of $5.";
      expect(all.policy).toBe(`Be fair. ${documents}`);
      expect(all.tools.map(({ name }) => name)).toEqual(["look"]);
      const searched = await loadTau2Data({ domain: "banking_knowledge", folder });
      expect(searched.tools.map(({ name }) => name)).toEqual(["KB_search", "grep", "look"]);
      expect(searched.fingerprint).not.toBe(all.fingerprint);
    });
  });

  it("refuses a way that needs a key or a shell, and names it", async () => {
    const load = (domain: string) => loadTau2Data({ domain, folder: "." });
    await expect(load("banking_knowledge-alltools")).rejects.toThrow(
      'Cannot use retrieval "alltools" of tau2-bench/banking_knowledge: it needs a key for a model of embeddings, and a shell',
    );
    await expect(load("banking_knowledge-qwen_embeddings")).rejects.toThrow("a key for a model of embeddings");
    await expect(load("banking_knowledge-bm52")).rejects.toThrow("there is none of that name; use one of no_knowledge");
  });
});

const checkout = process.env["TAU2_REPO"] ?? "";
const shared = checkout === "" ? null : sharedFolder("tau2-bench");

describe.skipIf(shared === null)("a real checkout (skipped without TAU2_REPO and ../shared/tau2-bench)", () => {
  it("gives every file that the shared layout has", async () => {
    const files = await readTau2Checkout(checkout);
    let compared = 0;
    const lines = (text: string): unknown[] =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown);
    for (const [path, text] of files) {
      const file = join(shared ?? "", path);
      if (!existsSync(file)) continue;
      const expected = readFileSync(file, "utf8");
      if (path.endsWith(".jsonl")) expect(lines(text), path).toEqual(lines(expected));
      else if (path.endsWith(".json")) expect(JSON.parse(text), path).toEqual(JSON.parse(expected));
      else expect(text, path).toBe(expected);
      compared++;
    }
    expect(compared).toBe(45);
    expect(files.size).toBe(48);
  });
});
