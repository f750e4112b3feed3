import type { Command, CommanderError } from "commander";
import { nearest } from "../api/setting.ts";

/**
 * A mistake on the command line as one sentence with the remedy. Repeats names and never values: a value may be a key that
 * was given to a flag that does not exist.
 */
export function usageMessage(
  error: CommanderError,
  { program, argv }: { readonly program: Command; readonly argv: readonly string[] },
): string {
  const command = program.commands.find((one) => one.name() === argv[0]) ?? program;
  const help = command === program ? `${program.name()} --help` : `${program.name()} ${command.name()} --help`;
  const cannot = "Cannot read the command line:";
  const [named = ""] = /'[^']*/.exec(error.message) ?? [];
  const name = named.slice(1).split(/[ =]/)[0] ?? "";
  switch (error.code) {
    case "commander.unknownOption": {
      if (/^--(user-)?api-key$/.test(name)) {
        return `${cannot} a key does not belong on it, where other processes see it; export it, and name its variable with ${name}-env.`;
      }
      const near = nearest(
        name,
        command.options.map(({ long }) => long ?? ""),
      );
      return `${cannot} there is no option "${name}"${near === null ? "" : `; did you mean "${near}"?`} (${help})`;
    }
    case "commander.unknownCommand": {
      const near = nearest(
        name,
        program.commands.map((one) => one.name()),
      );
      return `${cannot} there is no command "${name}"${near === null ? "" : `; did you mean "${near}"?`} (${help})`;
    }
    case "commander.optionMissingArgument":
      return `${cannot} option "${name}" needs a value (${help})`;
    case "commander.missingArgument":
      return `${cannot} <${name}> is missing (${help})`;
    case "commander.excessArguments":
      return `${cannot} there are more words than "${command.name()}" takes; names of options begin with two dashes (${help})`;
    default:
      return `${cannot} ${error.message.replace(/^error: /, "").replace(/\.$/, "")} (${help})`;
  }
}
