// A part of each kind is added to a copy of the package: an engine, an environment, a user and a row
// format, each with its folder or file and a row in a registry. The copy is compiled and runs a
// rollout with all of them. An addition that needs another place fails here.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findDirectionProblems } from "../scripts/checks/directions/problems.mjs";
import { modules, openToTests, packageEntry } from "../scripts/checks/directions/table.mjs";
import { repositoryRoot } from "./conformance/shared-folder.ts";

const root = repositoryRoot();
const copy = join(root, "build", `new-parts-${process.pid}`);
const longMs = 300_000;

/** Text that is put in a file: all of it, or before the marker in a file that exists. */
type Change = { readonly file: string; readonly text: string; readonly before?: string };

const engine: readonly Change[] = [
  {
    file: "src/engines/parrot/options.ts",
    text: `
import { section, text } from "../../parts/setting.ts";

export const parrotOptions = section("The policy", {
  parrotPhrase: text("<phrase>", "a phrase", "Good morning!").help("phrase that engine parrot repeats"),
});
`,
  },
  {
    file: "src/engines/parrot/index.ts",
    text: `
import type { Engine, Tokenizer } from "../../core/index.ts";

/** Samples one phrase in every turn. */
export function createParrotEngine({ phrase, tokenizer }: { readonly phrase: string; readonly tokenizer: Tokenizer }): Engine {
  return {
    name: "parrot",
    sample: async ({ prompt, stopTokenIds }) => {
      const stop = stopTokenIds[0] ?? 0;
      const sampledTokens = Uint32Array.from([...tokenizer.encode(phrase), stop]);
      const completionTokens = sampledTokens.length;
      return {
        sampledTokens,
        logprobs: new Float32Array(completionTokens),
        finish: { reason: "stop", matched: stop, raw: null },
        weightSpans: [{ tokenCount: completionTokens, dispatch: null, reply: null }],
        usage: { promptTokens: prompt.length, completionTokens, cachedTokens: null },
      };
    },
    close: async () => {},
  };
}
`,
  },
  {
    file: "src/engines/parrot/open.ts",
    text: `
import type { EngineContext, OpenedEngine } from "../../parts/engine.ts";
import type { SettingValues } from "../../parts/setting.ts";
import { createParrotEngine } from "./index.ts";
import type { parrotOptions } from "./options.ts";

export async function openEngine({
  options: { parrotPhrase: phrase },
  model: { tokenizer },
}: EngineContext<SettingValues<typeof parrotOptions>>): Promise<OpenedEngine> {
  return { engine: createParrotEngine({ phrase, tokenizer }), weightVersion: null };
}
`,
  },
  {
    file: "src/api/engines.ts",
    before: "const server = ",
    text: `import { parrotOptions } from "../engines/parrot/options.ts";

`,
  },
  {
    file: "src/api/engines.ts",
    before: "  expert: local({",
    text: `  parrot: local({
    help: "",
    samplesHere: false,
    required: null,
    needsModel: () => false,
    options: parrotOptions,
    load: () => import("../engines/parrot/open.ts"),
  }),
`,
  },
  {
    file: "package.json",
    before: '    "./engines/guarded": {',
    text: `    "./engines/parrot": {
      "types": "./dist/engines/parrot/index.d.ts",
      "default": "./dist/engines/parrot/index.js"
    },
`,
  },
  { file: "FEATURES.md", before: "", text: "| `parrot` |\n" },
];

const environment: readonly Change[] = [
  {
    file: "src/environments/lamp/options.ts",
    text: `
import { section, whole } from "../../parts/setting.ts";

export const lampOptions = section("Tasks", { lampWatts: whole(40).help("power of the lamp in watts") });
`,
  },
  {
    file: "src/environments/lamp/index.ts",
    text: `
import { createTaskset } from "../../core/taskset.ts";
import type { EnvironmentSource, Task } from "../../core/index.ts";

/** A lamp that can only be talked to; the reward is its power in kilowatts. */
export function lampSource(watts: number): EnvironmentSource {
  const task = (index: number): Task => ({
    id: "lamp:" + index,
    environment: "lamp/desk",
    split: "train",
    index,
    contentHash: "0".repeat(64),
    instruction: "Say something to the lamp.",
    agenda: null,
  });
  return {
    name: "lamp/desk",
    splits: ["train"],
    users: ["echo", "task"],
    argumentErrors: "loop",
    taskset: (split) => createTaskset("lamp/desk", split, { sizes: { train: 3 }, task }),
    open: (opened) => ({
      task: opened,
      guidelines: "",
      tools: [],
      info: new Map(),
      call: () => ({ text: "", isError: true, endsEpisode: false, info: new Map() }),
      receiveUtterance: () => undefined,
      grade: () => ({ reward: watts / 1000, metrics: {}, log: "", info: new Map() }),
      digest: () => "",
    }),
  };
}
`,
  },
  {
    file: "src/environments/lamp/open.ts",
    text: `
import { ConfigurationError } from "../../core/index.ts";
import type { EnvironmentContext, LoadedEnvironment } from "../../parts/environment.ts";
import type { SettingValues } from "../../parts/setting.ts";
import { lampSource } from "./index.ts";
import type { lampOptions } from "./options.ts";

export async function openSource({
  rest,
  options: { lampWatts },
}: EnvironmentContext<SettingValues<typeof lampOptions>>): Promise<LoadedEnvironment> {
  if (rest !== "desk") throw new ConfigurationError(\`Cannot open "lamp/\${rest}": there is only "lamp/desk".\`);
  return { source: lampSource(lampWatts), defaultSplit: "train", defaultTasks: "all" };
}
`,
  },
  {
    file: "src/api/environments.ts",
    before: "const row = ",
    text: `import { lampOptions } from "../environments/lamp/options.ts";

`,
  },
  {
    file: "src/api/environments.ts",
    before: "  mcp: row({",
    text: `  lamp: row({
    type: "family",
    form: "lamp/<place>",
    names: ["lamp/desk"],
    options: lampOptions,
    load: () => import("../environments/lamp/open.ts"),
  }),
`,
  },
  {
    file: "package.json",
    before: '    "./environments/remote": {',
    text: `    "./environments/lamp": {
      "types": "./dist/environments/lamp/index.d.ts",
      "default": "./dist/environments/lamp/index.js"
    },
`,
  },
  { file: "FEATURES.md", before: "", text: "| `lamp/desk` |\n" },
];

const user: readonly Change[] = [
  {
    file: "src/users/echo-user.ts",
    text: `
import { freeUsage, type UserSource } from "../core/index.ts";
import { section, whole } from "../parts/setting.ts";
import { orderedUser } from "./conversation.ts";

export const echoOptions = section("The user", { echoLines: whole(2).help("lines of user echo before it hangs up") });

/** Repeats each utterance of the agent. */
export function echoUser(lines: number): UserSource {
  return {
    name: "echo",
    create: () => {
      let said = 0;
      return orderedUser("echo", async (heard) => {
        const type = said++ < lines ? "utterance" : "hang-up";
        return { type, text: typeof heard === "string" ? heard : "Hello.", usage: freeUsage };
      });
    },
    resume: () => {
      throw new TypeError("Nothing resumes here.");
    },
  };
}
`,
  },
  {
    file: "src/users/on-demand.ts",
    before: "/** Options for creating the user",
    text: 'import { echoOptions } from "./echo-user.ts";\n\n',
  },
  {
    file: "src/users/on-demand.ts",
    before: "  replay: row(",
    text: `  echo: row(echoOptions, {
    runsWith: "listed",
    load: async () => {
      const { echoUser } = await import("./echo-user.ts");
      return { createUser: ({ options: { echoLines } }) => echoUser(echoLines) };
    },
  }),
`,
  },
  { file: "FEATURES.md", before: "", text: "| `echo` |\n" },
];

const rowFormat: readonly Change[] = [
  {
    file: "src/export/turn-counts.ts",
    text: `
import { columns, int, string } from "./columns.ts";
import { rowFormat } from "./row-format.ts";

const turnColumns = columns({ episode: string(), turns: int() });

/** One row for each episode: its number of turns. */
export const turnCounts = rowFormat(turnColumns, {
  takes: "all-groups",
  rowsOf: (episodes) =>
    episodes.map(({ origin }) => ({
      row: { episode: origin.episode.id, turns: origin.episode.trajectory.turns.length },
      episodes: [origin],
    })),
});
`,
  },
  {
    file: "src/export/formats.ts",
    before: "export const exportFormats",
    text: 'import { turnCounts } from "./turn-counts.ts";\n\n',
  },
  { file: "src/export/formats.ts", before: "  slime: rowFormat(", text: '  "turn-counts": turnCounts,\n' },
  { file: "FEATURES.md", before: "", text: "| `turn-counts` |\n" },
];

const parts = { engine, environment, user, "row format": rowFormat };

/** Places that a change touches; a folder that it adds is one. */
function placesOf(changes: readonly Change[]): ReadonlySet<string> {
  return new Set(
    changes.map(({ file, before }) =>
      before === undefined ? file.replace(/(src\/(?:engines|environments)\/\w+)\/.*/, "$1/") : file,
    ),
  );
}

function apply({ file, text, before }: Change): void {
  const path = join(copy, file);
  if (before === undefined) {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
    return;
  }
  const content = readFileSync(path, "utf8");
  const at = content.indexOf(before);
  if (at === -1) throw new Error(`"${file}" has no "${before}" any more; name another place in this test.`);
  writeFileSync(path, content.slice(0, at) + text + content.slice(at));
}

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs a program of Node in the copy. */
const node = async (program: string, ...argv: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const options = { cwd: copy, maxBuffer: 10_000_000 };
    execFile(process.execPath, [program, ...argv], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

const run = async (...argv: readonly string[]): Promise<Ended> => node(join(copy, "dist", "cli", "main.js"), ...argv);

const rollout = ["rollout", "--env", "lamp/desk", "--engine", "parrot"];

beforeAll(async () => {
  mkdirSync(copy, { recursive: true });
  const isTest = (file: string): boolean => /\.test(-helper)?\.ts$/.test(file);
  cpSync(join(root, "src"), join(copy, "src"), { recursive: true, filter: (file) => !isTest(file) });
  for (const file of ["package.json", "FEATURES.md", "tsconfig.base.json", "tsconfig.build.json"]) {
    cpSync(join(root, file), join(copy, file));
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  for (const change of Object.values(parts).flat()) apply(change);
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const { code, stdout } = await node(compiler, "-b", "tsconfig.build.json");
  if (code !== 0) throw new Error(`The copy does not compile: ${stdout}`);
}, longMs);
afterAll(() => rmSync(copy, { recursive: true, force: true }));

describe("a part that is added to the package", () => {
  it.each(Object.entries(parts))("touches at most four places: %s", (_, changes) => {
    expect([...placesOf(changes)].length).toBeLessThanOrEqual(4);
  });

  it("is imported in the directions that the table allows as it is", () => {
    const files = readdirSync(join(copy, "src"), { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".ts"),
    );
    const sources = new Map(files.map((file) => [file, readFileSync(join(copy, "src", file), "utf8")]));
    const { dependencies, peerDependencies, devDependencies, name } = JSON.parse(
      readFileSync(join(copy, "package.json"), "utf8"),
    ) as Record<"dependencies" | "peerDependencies" | "devDependencies", Record<string, string>> & { name: string };
    const problems = findDirectionProblems({
      modules,
      packageEntry,
      openToTests,
      sources,
      dependencies: new Set(Object.keys(dependencies)),
      peers: new Set(Object.keys(peerDependencies)),
      devDependencies: new Set([...Object.keys(devDependencies), name]),
    });
    expect(problems).toEqual([]);
  });

  it("runs, is recorded and is exported", { timeout: longMs }, async () => {
    const options = ["--parrot-phrase", "Off with it.", "--lamp-watts", "250", "--echo-lines", "3"];
    const done = await run(...rollout, ...options, "--tasks", "0-1", "--out", "run", "--json");
    expect(done.stderr).not.toContain("Cannot");
    expect(done).toMatchObject({ code: 0 });
    const { configuration } = JSON.parse(readFileSync(join(copy, "run", "run.json"), "utf8")) as {
      readonly configuration: Readonly<Record<string, unknown>>;
    };
    expect(configuration).toMatchObject({
      env: "lamp/desk",
      "lamp-watts": 250,
      engine: "parrot",
      "parrot-phrase": "Off with it.",
      user: "echo",
      "echo-lines": 3,
    });
    expect(await run("export", "run", "--format", "turn-counts", "--output", "rows.jsonl")).toMatchObject({ code: 0 });
    const rows = readFileSync(join(copy, "rows.jsonl"), "utf8").trim().split("\n");
    // One turn for each line of the user, the opening included.
    expect(rows.map((row) => (JSON.parse(row) as { readonly turns: number }).turns)).toEqual([3, 3]);
  });

  it("has its options in the help, in configuration files and in refusals", { timeout: longMs }, async () => {
    const { stdout: help } = await run("rollout", "--help-all");
    for (const text of ["--parrot-phrase <phrase>", "--lamp-watts <n>", "--echo-lines <n>", "lamp/<place>", "parrot"]) {
      expect(help).toContain(text);
    }
    const { stdout: schema } = await run("schema");
    for (const key of ['"parrot-phrase"', '"lamp-watts"', '"echo-lines"']) expect(schema).toContain(key);
    const refused = async (...flags: string[]): Promise<string> => (await run("rollout", ...flags)).stderr;
    expect(await refused("--engine", "expert", "--parrot-phrase", "Hi")).toContain(
      'Cannot use --parrot-phrase with engine "expert": it has no effect there; remove it, or use --engine parrot.',
    );
    expect(await refused("--lamp-watts", "5")).toContain(
      'Cannot use --lamp-watts with environment "bookshop": it has no effect there; remove it, or use --env lamp/<place>.',
    );
    expect(await refused("--echo-lines", "5")).toContain(
      'Cannot use --echo-lines with user "agenda": it has no effect there; remove it, or use --user echo.',
    );
  });
});
