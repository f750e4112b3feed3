// initEnvironment(): a folder with an environment that runs, small enough to be read and replaced piece by piece: a copy of
// examples/new-environment under another name. It writes files and nothing else: nothing is installed.

import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { packageVersion } from "./surroundings.ts";

/** Options of {@link initEnvironment}: the flags of the command `init environment` in camelCase. */
export type InitEnvironmentOptions = {
  /** Of the environment and of its package: small letters, digits and dashes. */
  readonly name: string;
  /** Folder that is made; must be new or empty. @default the name */
  readonly to?: string;
  /** Folder that relative paths start from. @default process.cwd() */
  readonly cwd?: string;
};

export type InitEnvironmentResult = {
  /** Absolute. */
  readonly folder: string;
  /** Names of the files in it. */
  readonly files: readonly string[];
};

/**
 * Writes an environment with tools, tasks, a grader, a test and a README into a new folder. Rejects with a `ConfigurationError` when
 * the folder holds something, which is then left as it is.
 *
 * @example
 * const { folder } = await initEnvironment({ name: "museum-tours", to: "/tmp/museum-tours-of-an-example" });
 */
export async function initEnvironment(options: InitEnvironmentOptions): Promise<InitEnvironmentResult> {
  const { name, to = name, cwd = process.cwd() } = options;
  if (typeof name !== "string" || !/^[a-z][a-z0-9-]{0,63}$/.test(name)) {
    throw new ConfigurationError(
      `Cannot make environment ${JSON.stringify(name)}: a name of small letters, digits and dashes is needed, like museum-tours.`,
    );
  }
  const folder = resolve(cwd, to);
  const cannot = `Cannot make environment "${name}" in "${folder}"`;
  const remedy = "name a folder that is new or empty";
  try {
    await mkdir(folder, { recursive: true });
    const present = await readdir(folder);
    if (present.length > 0) {
      throw new ConfigurationError(`${cannot}: it holds "${present[0]}" and ${present.length - 1} more; ${remedy}.`);
    }
    const files = await environmentFiles(name);
    for (const [file, text] of files) await writeFile(join(folder, file), text, { flag: "wx" });
    return { folder, files: files.map(([file]) => file) };
  } catch (cause) {
    if (cause instanceof ConfigurationError) throw cause;
    const { code = String(cause) } = cause as NodeJS.ErrnoException;
    const state = code === "EEXIST" || code === "ENOTDIR" ? "there is a file of that name" : code;
    throw new ConfigurationError(`${cannot}: ${state}; ${remedy}.`, { cause });
  }
}

const template = new URL("../../examples/new-environment/", import.meta.url);

async function environmentFiles(name: string): Promise<readonly (readonly [file: string, text: string])[]> {
  const copies = { "environment.ts": "environment.ts", "environment.test.mjs": "test.mjs", "README.md": "README.md" };
  const copied = Object.entries(copies).map(async ([file, from]) => {
    return [file, (await readFile(new URL(from, template), "utf8")).replaceAll("NAME", name)] as const;
  });
  const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
  // Not in the example: what lies beside a package.json cannot import this package by its name.
  const made = {
    "package.json": json({
      ...{ name, private: true, type: "module" },
      scripts: {
        test: "node --test",
        doctor: "trainable-agents doctor environment ./environment.ts",
        rollout: "trainable-agents rollout --env ./environment.ts --user agenda --engine embedded --model bookshop-1m",
      },
      dependencies: { "trainable-agents": packageVersion() },
    }),
    "tsconfig.json": json({
      compilerOptions: {
        ...{ target: "ES2023", lib: ["ES2023", "DOM"], module: "NodeNext", types: [] },
        ...{ strict: true, noEmit: true, skipLibCheck: true },
      },
      include: ["*.ts"],
    }),
    ".gitignore": "node_modules/\nruns/\n",
  };
  return [...(await Promise.all(copied)), ...Object.entries(made)];
}
