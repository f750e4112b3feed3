// The command line as a function: arguments and a context in, an exit code out. Every mistake that
// the user can correct becomes one sentence; for unforeseen errors, the message tells how to get
// the stack.

import { Command, CommanderError } from "commander";

import { packageVersion } from "../api/surroundings.ts";
import { redactorFor } from "../api/secrets.ts";
import { AttributedError, ConfigurationError } from "../core/index.ts";
import { remedyOf } from "../lib/system-error.ts";
import { type CliContext, exitCodes, type RunCommand } from "./cli-context.ts";
import { coloursFor, oneMessage, terminalOutput } from "./display/terminal-text.ts";
import { addHelpAll, withTodaysNames } from "./flags.ts";
import { remedyFor, suggestion } from "../lib/nearest.ts";
import { SpecialFileError } from "../system/regular-file.ts";

/**
 * Each command by name, in the order of the help. A command is loaded when it is named: together
 * they import the whole package.
 */
const commands: Readonly<Record<string, () => Promise<(run: RunCommand) => Command>>> = {
  start: async () => (await import("./commands/start-command.ts")).startCommand,
  example: async () => (await import("./commands/example-command.ts")).exampleCommand,
  rollout: async () => (await import("./commands/rollout-command.ts")).rolloutCommand,
  eval: async () => (await import("./commands/eval-command.ts")).evalCommand,
  inspect: async () => (await import("./commands/inspect-command.ts")).inspectCommand,
  compare: async () => (await import("./commands/compare-command.ts")).compareCommand,
  view: async () => (await import("./commands/view-command.ts")).viewCommand,
  score: async () => (await import("./commands/score-command.ts")).scoreCommand,
  export: async () => (await import("./commands/export-command.ts")).exportCommand,
  "verify-rows": async () => (await import("./commands/verify-rows-command.ts")).verifyRowsCommand,
  merge: async () => (await import("./commands/export-command.ts")).mergeCommand,
  "export-model": async () => (await import("./commands/export-command.ts")).exportModelCommand,
  prepare: async () => (await import("./commands/start-command.ts")).prepareCommand,
  train: async () => (await import("./commands/train-command.ts")).trainCommand,
  engine: async () => (await import("./commands/engine-command.ts")).engineCommand,
  serve: async () => (await import("./commands/serve-command.ts")).serveCommand,
  worker: async () => (await import("./commands/worker-command.ts")).workerCommand,
  gateway: async () => (await import("./commands/gateway-command.ts")).gatewayCommand,
  "env-server": async () => (await import("./commands/env-server-command.ts")).envServerCommand,
  init: async () => (await import("./commands/init-command.ts")).initCommand,
  doctor: async () => (await import("./commands/doctor-command.ts")).doctorCommand,
  bench: async () => (await import("./commands/bench-command.ts")).benchCommand,
  schema: async () => (await import("./commands/init-command.ts")).schemaCommand,
  tokens: async () => (await import("./commands/tokens-command.ts")).tokensCommand,
  completion: async () => {
    const { completionCommand } = await import("./commands/completion-command.ts");
    return (run) => completionCommand(run, () => createAll(run));
  },
};

/**
 * A mistake on the command line as one sentence with the remedy. Repeats names and never values: a
 * value may be a key that was given to a nonexistent flag.
 */
function usageMessage(
  error: CommanderError,
  {
    program,
    argv,
    others,
  }: { readonly program: Command; readonly argv: readonly string[]; readonly others: readonly Command[] },
): string {
  const command = program.commands.find((one) => one.name() === argv[0]) ?? program;
  const help = command === program ? `${program.name()} --help` : `${program.name()} ${command.name()} --help`;
  const cannot = "Cannot read the command line:";
  const known = command.options.map(({ long }) => long ?? "");
  const unknownOption = (name: string): string => {
    const owners = others.filter(({ options }) => options.some(({ long }) => long === name)).map((one) => one.name());
    const owned =
      owners.length === 0 ? "" : `; ${owners.slice(0, 3).join(", ")} ${owners.length === 1 ? "has" : "have"} one`;
    const near = suggestion(name, known);
    return `${cannot} there is no option "${name}"${near === null ? owned : `; ${near}`} (${help})`;
  };
  const [named = ""] = /'[^']*/.exec(error.message) ?? [];
  const name = named.slice(1).split(/[ =]/)[0] ?? "";
  switch (error.code) {
    case "commander.unknownOption":
      if (/^--(user-)?api-key$/.test(name)) {
        return `${cannot} a key on the command line is visible to other processes; export it, and name its variable with ${name}-env.`;
      }
      return unknownOption(name);
    case "commander.unknownCommand": {
      const near = suggestion(name, program.commands.map((one) => one.name())); // prettier-ignore
      return `${cannot} there is no command "${name}"${near === null ? "" : `; ${near}`} (${help})`;
    }
    case "commander.missingMandatoryOptionValue": {
      // The flag may be missing because it is misspelt.
      const misspelt = argv.map((word) => word.split("=")[0]!).find((word) => /^--[a-z]/.test(word) && !known.includes(word)); // prettier-ignore
      return misspelt === undefined ? `${cannot} ${name} is missing (${help})` : unknownOption(misspelt);
    }
    case "commander.invalidArgument": {
      const { argChoices = [] } = command.options.find(({ long }) => long === name) ?? {};
      const given = /argument '([^']*)'/.exec(error.message)?.[1] ?? "";
      return `${cannot} there is no ${name} "${given}"; ${remedyFor(given, argChoices)} (${help})`;
    }
    case "commander.optionMissingArgument":
      return `${cannot} option "${name}" needs a value (${help})`;
    case "commander.missingArgument":
      return `${cannot} <${name}> is missing (${help})`;
    case "commander.excessArguments":
      return `${cannot} "${command.name()}" takes fewer arguments; option names begin with two dashes (${help})`;
    default:
      return `${cannot} ${error.message.replace(/^error: /, "").replace(/\.$/, "")} (${help})`;
  }
}

/** Runs one command line, `argv` without program and script. Never rejects. */
export async function runCli(argv: readonly string[], surroundings: CliContext): Promise<number> {
  const { stdout, stderr, env } = surroundings;
  const context = { ...surroundings, stdout: terminalOutput(stdout, env), stderr: terminalOutput(stderr, env) };
  let exitCode: number = exitCodes.done;
  const program = await createProgram(argv, context, async (command) => {
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
 * The error of a command line; `null` if it can be parsed. Runs nothing and checks no value. For
 * the commands that documentation prints: `isIncomplete` when the only error is a missing part.
 */
export async function commandLineProblem(
  argv: readonly string[],
  context: CliContext,
): Promise<{ readonly message: string; readonly isIncomplete: boolean } | null> {
  const program = await createProgram(argv, context, () => Promise.resolve());
  try {
    await program.parseAsync(argv, { from: "user" });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0 || error.code === "commander.help") return null;
    const isIncomplete = /missing/i.test(error.code);
    return { message: usageMessage(error, { program, argv, others: [] }), isIncomplete };
  }
}

async function createAll(run: RunCommand): Promise<readonly Command[]> {
  return Promise.all(Object.values(commands).map(async (load) => (await load())(run)));
}

/**
 * Creates the program with the named command; with all commands if none is named, for the help and
 * for suggestions of similar names.
 */
async function createProgram(argv: readonly string[], context: CliContext, run: RunCommand): Promise<Command> {
  const { stdout, stderr, env } = context;
  const program = new Command("trainable-agents")
    .description("Roll out, evaluate and train tool-using agents.")
    .version(packageVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show the help of a command")
    .addHelpText("after", `\nBegin with:\n  $ ${context.program} start\n  $ ${context.program} rollout --help`);
  const [named = ""] = argv;
  const loading = Object.hasOwn(commands, named)
    ? [commands[named]!]
    : ["-v", "--version"].includes(named)
      ? []
      : Object.values(commands);
  for (const create of await Promise.all(loading.map((load) => load()))) program.addCommand(create(run));
  for (const command of program.commands) {
    if (!command.options.some(({ long }) => long === "--help-all")) addHelpAll(command, []);
  }
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .showSuggestionAfterError(true)
      .helpOption("-h, --help", "show this help")
      .configureHelp({
        helpWidth: Math.min(stdout.columns ?? 80, 120),
        minWidthToWrap: 20,
        styleTitle: (title) => coloursFor(stdout, env).bold(title),
      })
      .configureOutput({
        writeOut: (text) => void stdout.write(text),
        writeErr: (text) => void stderr.write(text),
        // Errors are reported once, in our wording, by `report`.
        outputError: () => undefined,
        getOutHasColors: () => coloursFor(stdout, env).isColorSupported,
      });
  }
  return program;
}

type Failed = { readonly program: Command; readonly argv: readonly string[]; readonly context: CliContext };

async function report(error: unknown, { program, argv, context }: Failed): Promise<number> {
  const { stderr, env } = context;
  // An argument may name a variable that holds a key, or contain an address with a key.
  const values = argv.flatMap((word) => [word, word.slice(word.indexOf("=") + 1)]);
  const redact = redactorFor(env, { variables: values, urls: values });
  const say = (message: string): void => {
    stderr.write(`${coloursFor(stderr, env).red(oneMessage(redact(message)))}\n`);
    // The stack of a mistyped flag is useless, and its message repeats values.
    if (isSet(env["DEBUG"]) && !(error instanceof CommanderError)) stderr.write(`${redact(stackOf(error))}\n`);
  };
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.done;
    if (error.code === "commander.help") return exitCodes.usage;
    const { commands: others } = await createProgram([], context, async () => undefined);
    say(usageMessage(error, { program, argv, others }));
    return exitCodes.usage;
  }
  if (error instanceof ConfigurationError) {
    say(error.message);
    return exitCodes.usage;
  }
  if (error instanceof SpecialFileError) {
    say(`Cannot read "${error.path}": ${error.message}; name a file, or write its output to one.`);
    return exitCodes.usage;
  }
  const isCancelled = error instanceof AttributedError && error.failure.code === "cancelled";
  if (context.cancel.aborted || (context.drain.aborted && isCancelled)) {
    say("Interrupted.");
    return exitCodes.interrupted;
  }
  say(error instanceof AttributedError ? error.message : (systemMessage(error) ?? unforeseen(error, env)));
  return exitCodes.failed;
}

function unforeseen(error: unknown, env: CliContext["env"]): string {
  const message = error instanceof Error ? error.message : String(error);
  return isSet(env["DEBUG"]) ? message : `${message}\nThis should not happen. Run it again with DEBUG=1 to see where.`;
}

/** Message for a refusal of the file system, with the remedy; `null` for other errors. */
function systemMessage(error: unknown): string | null {
  const remedy = remedyOf(error);
  if (remedy === null) return null;
  const { path = null, message } = error as NodeJS.ErrnoException;
  const where = path === null || message.includes(path) ? "" : ` at "${path}"`;
  return `Cannot continue: the system refused${where}: ${message}; ${remedy}.`;
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : `\nCaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && value !== "0" && value !== "false";
}
