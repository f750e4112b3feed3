// `schema`: the JSON Schema of a configuration file.

import { Command } from "commander";
import type { RunCommand } from "../cli-context.ts";
import { writeJson } from "../flags.ts";

export function schemaCommand(run: RunCommand): Command {
  return new Command("schema")
    .summary("print the JSON Schema of a configuration file")
    .description(
      "For editors: save it, and begin a YAML file with `# yaml-language-server: $schema=<file>`. It knows the names and types of " +
        "the settings of --config, not how they fit together.",
    )
    .addHelpText("after", "\nExample:\n  $ npx trainable-agents schema > trainable-agents.schema.json")
    .action(async () =>
      run(async (context) => writeJson((await import("../../api/config-schema.ts")).configurationSchema(), context)),
    );
}
