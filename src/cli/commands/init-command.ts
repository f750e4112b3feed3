// Commands to begin with: `init` calls initEnvironment() and prints the next steps, `schema` prints
// the JSON Schema of a configuration file.

import { relative } from "node:path";

import { Command } from "commander";
import { initEnvironment } from "../../api/init-environment.ts";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { quoted } from "../rollout-display.ts";
import { jsonOption, writeJson } from "../flags.ts";

export function initCommand(run: RunCommand): Command {
  return new Command("init")
    .summary("write a folder with a working environment of your own")
    .description(
      "environment: writes tools, tasks with agendas, a grader, a test and a README into a folder. Nothing is installed: its modules use " +
        "this package, through a link if no node_modules above the folder contains it.",
    )
    .argument("<what>", "environment")
    .argument("<name>", "lowercase letters, digits and dashes")
    .option("--to <folder>", "folder to create; must be new or empty (default: the name)")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents init environment museum-tours
  $ npx trainable-agents init environment museum-tours --to ./environments/museum-tours`,
    )
    .action(async (what: string, name: string, flags: { readonly to?: string; readonly json?: true }) =>
      run((context) => init(what, { name, ...flags }, context)),
    );
}

async function init(
  what: string,
  { json, ...options }: { readonly name: string; readonly to?: string; readonly json?: true },
  context: CliContext,
): Promise<number> {
  const { cwd, stdout } = context;
  if (what !== "environment") {
    throw new ConfigurationError(
      `Cannot create "${what}": only "environment" is available; write "init environment <name>".`,
    );
  }
  const { folder, files, package: found } = await initEnvironment({ ...options, cwd });
  const shown = relative(cwd, folder) || ".";
  if (json === true) return writeJson({ folder: shown, files, package: found }, context);
  stdout.write(`${files.join(", ")} in ${shown}\nNext: cd ${quoted(shown)} && npm test && npm run rollout\n`);
  return exitCodes.done;
}

export function schemaCommand(run: RunCommand): Command {
  return new Command("schema")
    .summary("print the JSON Schema of a configuration file")
    .description(
      "For editors: save the schema, and begin a YAML file with `# yaml-language-server: $schema=<file>`. It covers the names and types of " +
        "the settings for --config, but not which of them can be combined.",
    )
    .addHelpText("after", "\nExample:\n  $ npx trainable-agents schema > trainable-agents.schema.json")
    .action(async () =>
      run(async (context) => writeJson((await import("../../api/config-file.ts")).configurationSchema(), context)),
    );
}
