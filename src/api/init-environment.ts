// initEnvironment(): writes a folder with an environment that runs, small enough to be read and
// replaced piece by piece: a copy of examples/new-environment under another name. Nothing is
// installed: if no node_modules above the folder has this package, as in a clone or after a global
// installation, the folder gets a link to the running copy.

import { existsSync } from "node:fs";
import { readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { makeFolder } from "../system/make-folder.ts";
import { ConfigurationError } from "../core/index.ts";
import { packageVersion } from "./surroundings.ts";

/** Options of {@link initEnvironment}: the flags of the command `init environment` in camelCase. */
export type InitEnvironmentOptions = {
  /** Name of the environment and of its package: lowercase letters, digits and dashes. */
  readonly name: string;
  /** Folder to create; must be new or empty. @default the name */
  readonly to?: string;
  /** Folder that relative paths start from. @default process.cwd() */
  readonly cwd?: string;
};

export type InitEnvironmentResult = {
  /** Absolute. */
  readonly folder: string;
  /** Names of the files in it. */
  readonly files: readonly string[];
  /**
   * The way its modules find this package: "installed" in a node_modules above the folder, or
   * "linked" from one inside it.
   */
  readonly package: "installed" | "linked";
};

/** The public function of this name: `functions.ts`. */
export async function initEnvironment(options: InitEnvironmentOptions): Promise<InitEnvironmentResult> {
  const { name, to = name, cwd = process.cwd() } = options;
  if (typeof name !== "string" || !/^[a-z][a-z0-9-]{0,63}$/.test(name)) {
    throw new ConfigurationError(
      `Cannot create environment ${JSON.stringify(name)}: expected a name of lowercase letters, digits and dashes, like museum-tours.`,
    );
  }
  const folder = resolve(cwd, to);
  const cannot = `Cannot create environment "${name}" in "${folder}"`;
  const remedy = "name a folder that is new or empty";
  try {
    await makeFolder(folder);
    const present = await readdir(folder);
    if (present.length > 0) {
      throw new ConfigurationError(`${cannot}: it holds "${present[0]}" and ${present.length - 1} more; ${remedy}.`);
    }
    const isLinked = !isInstalledAbove(folder);
    const files = await environmentFiles(name, isLinked ? linkedVersion(folder) : packageVersion());
    for (const [file, text] of files) await writeFile(join(folder, file), text, { flag: "wx" });
    if (isLinked) await linkPackage(join(folder, "node_modules"));
    return { folder, files: files.map(([file]) => file), package: isLinked ? "linked" : "installed" };
  } catch (cause) {
    if (cause instanceof ConfigurationError) throw cause;
    const { code = String(cause) } = cause as NodeJS.ErrnoException;
    const state = code === "EEXIST" || code === "ENOTDIR" ? "there is a file of that name" : code;
    throw new ConfigurationError(`${cannot}: ${state}; ${remedy}.`, { cause });
  }
}

const packageFolder = fileURLToPath(new URL("../..", import.meta.url));

/** True if an import from a package in the folder finds this package. */
function isInstalledAbove(folder: string): boolean {
  const above = dirname(folder);
  return (
    existsSync(join(folder, "node_modules", "trainable-agents", "package.json")) ||
    (above !== folder && isInstalledAbove(above))
  );
}

/**
 * The version that a manifest gives for the linked copy: the path of a clone, or the version of an
 * installed package.
 */
function linkedVersion(folder: string): string {
  const isInstalled = packageFolder.split(sep).includes("node_modules");
  return isInstalled ? packageVersion() : `file:${relative(folder, packageFolder).replaceAll(sep, "/")}`;
}

/** Links the package as npm installs a folder dependency: a link to it, and to its program. */
async function linkPackage(modules: string): Promise<void> {
  await makeFolder(join(modules, ".bin"));
  await symlink(packageFolder, join(modules, "trainable-agents"), "junction");
  const program = join("..", "trainable-agents", "dist", "cli", "main.js");
  if (process.platform !== "win32") return symlink(program, join(modules, ".bin", "trainable-agents"));
  await writeFile(join(modules, ".bin", "trainable-agents.cmd"), `@node "%~dp0\\${program}" %*\r\n`);
}

const template = new URL("../../examples/new-environment/", import.meta.url);

async function environmentFiles(
  name: string,
  version: string,
): Promise<readonly (readonly [file: string, text: string])[]> {
  const copies = {
    [`${name}.ts`]: "environment.ts",
    [`${name}.test.mjs`]: "test.mjs",
    "README.md": "README.md",
  };
  const copied = Object.entries(copies).map(async ([file, from]) => {
    return [file, (await readFile(new URL(from, template), "utf8")).replaceAll("NAME", name)] as const;
  });
  const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
  // These files are not in the example: modules beside a package.json cannot import this package by
  // its name.
  const made = {
    "package.json": json({
      name,
      private: true,
      type: "module",
      scripts: {
        test: "node --test",
        doctor: `trainable-agents doctor environment ./${name}.ts`,
        rollout: `trainable-agents rollout --env ./${name}.ts --user agenda --engine embedded --model bookshop-1m`,
      },
      dependencies: { "trainable-agents": version },
    }),
    "tsconfig.json": json({
      compilerOptions: {
        target: "ES2023",
        lib: ["ES2023", "DOM"],
        module: "NodeNext",
        types: [],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
      },
      include: ["*.ts"],
    }),
    ".gitignore": "node_modules/\nruns/\n",
  };
  return [...(await Promise.all(copied)), ...Object.entries(made)];
}
