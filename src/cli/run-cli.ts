// The command line as a function: arguments and a context in, an exit code out. Every mistake that the user can correct
// becomes one sentence; what nobody foresaw says how to get its stack.

import { Command, CommanderError } from "commander";

import { packageVersion } from "../api/run-to-resume.ts";
import { redactorFor } from "../api/secrets.ts";
import { nearest } from "../api/setting.ts";
import { AttributedError, ConfigurationError } from "../core/index.ts";
import { type CliContext, exitCodes } from "./cli-context.ts";
import { benchCommand } from "./commands/bench-command.ts";
import { doctorCommand } from "./commands/doctor-command.ts";
import { engineCommand } from "./commands/engine-command.ts";
import { evalCommand } from "./commands/eval-command.ts";
import { exportCommand, exportModelCommand } from "./commands/export-command.ts";
import { inspectCommand } from "./commands/inspect-command.ts";
import { prepareCommand, startCommand } from "./commands/start-command.ts";
import { rolloutCommand } from "./commands/rollout-command.ts";
import { serveCommand } from "./commands/serve-command.ts";
import { tokensCommand } from "./commands/tokens-command.ts";
import { trainCommand } from "./commands/train-command.ts";
import { coloursFor } from "./display/terminal-text.ts";
import { withTodaysNames } from "./flags.ts";

/**
 * A mistake on the command line as one sentence with the remedy. Repeats names and never values: a value may be a key that
 * was given to a flag that does not exist.
 */
function usageMessage(
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

/** Runs one command line, `argv` without program and script. Never rejects. */
export async function runCli(argv: readonly string[], context: CliContext): Promise<number> {
  let exitCode: number = exitCodes.done;
  const program = createProgram(context, async (command) => {
    exitCode = await command(context);
  });
  try {
    await program.parseAsync(withTodaysNames(argv), { from: "user" });
    return exitCode;
  } catch (error) {
    return report(error, { program, argv, context });
  }
}

/**
 * What is wrong with a command line; `null`: it can be read. Runs nothing and looks at no value. For the commands that
 * documentation prints: `isIncomplete` when all that is wrong is that something is missing.
 */
export async function commandLineProblem(
  argv: readonly string[],
  context: CliContext,
): Promise<{ readonly message: string; readonly isIncomplete: boolean } | null> {
  const program = createProgram(context, () => Promise.resolve());
  try {
    await program.parseAsync(argv, { from: "user" });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0 || error.code === "commander.help") return null;
    const isIncomplete = /missing/i.test(error.code);
    return { message: usageMessage(error, { program, argv }), isIncomplete };
  }
}

function createProgram(context: CliContext, run: Parameters<typeof rolloutCommand>[0]): Command {
  const { stdout, stderr, env } = context;
  const program = new Command("trainable-agents")
    .description("Roll out, evaluate and train tool-using agents.")
    .version(packageVersion(), "--version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show the help of a command")
    .addHelpText("after", `\nBegin with:\n  $ ${context.program} start\n  $ ${context.program} rollout --help`);
  for (const command of [
    startCommand(run),
    rolloutCommand(run),
    evalCommand(run),
    inspectCommand(run),
    exportCommand(run),
    exportModelCommand(run),
    prepareCommand(run),
    trainCommand(run),
    engineCommand(run),
    serveCommand(run),
    doctorCommand(run),
    benchCommand(run),
    tokensCommand(run),
  ])
    program.addCommand(command);
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .showSuggestionAfterError(true)
      .helpOption("-h, --help", "show this help")
      .configureHelp({
        helpWidth: Math.min(stdout.columns ?? 100, 120),
        styleTitle: (title) => coloursFor(stdout, env).bold(title),
      })
      .configureOutput({
        writeOut: (text) => void stdout.write(text),
        writeErr: (text) => void stderr.write(text),
        // Told once, in our words, where errors are told.
        outputError: () => undefined,
        getOutHasColors: () => coloursFor(stdout, env).isColorSupported,
      });
  }
  return program;
}

type Failed = { readonly program: Command; readonly argv: readonly string[]; readonly context: CliContext };

function report(error: unknown, { program, argv, context }: Failed): number {
  const { stderr, env } = context;
  // What the arguments name may be a variable with a key, or an address with one.
  const words = argv.flatMap((word) => [word, word.slice(word.indexOf("=") + 1)]);
  const redact = redactorFor(env, { variables: words, urls: words });
  const tell = (message: string): void => {
    stderr.write(`${coloursFor(stderr, env).red(redact(message))}\n`);
    // The stack of a mistyped flag says nothing, and its message repeats values.
    if (isSet(env["DEBUG"]) && !(error instanceof CommanderError)) stderr.write(`${redact(stackOf(error))}\n`);
  };
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.done;
    if (error.code === "commander.help") return exitCodes.usage;
    tell(usageMessage(error, { program, argv }));
    return exitCodes.usage;
  }
  if (error instanceof ConfigurationError) {
    tell(error.message);
    return exitCodes.usage;
  }
  const isCancelled = error instanceof AttributedError && error.failure.code === "cancelled";
  if (context.cancel.aborted || (context.drain.aborted && isCancelled)) {
    tell("Interrupted.");
    return exitCodes.interrupted;
  }
  const message = error instanceof Error ? error.message : String(error);
  const isForeseen = error instanceof AttributedError;
  const remedy =
    isForeseen || isSet(env["DEBUG"]) ? "" : "\nThis should not happen. Run it again with DEBUG=1 to see where.";
  tell(`${message}${remedy}`);
  return exitCodes.failed;
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : `\nCaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && value !== "0" && value !== "false";
}
