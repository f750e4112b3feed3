// `completion`: prints a script that completes commands, flags and names in a shell. It is made of
// the commands and their settings, and asks this program nothing while somebody types.

import { type Command, Command as NewCommand, type Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { remedyFor } from "../../lib/nearest.ts";
import { suggestedNames } from "../../parts/setting.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { settingOf } from "../flags.ts";

/** A command as a shell sees it. */
type Completed = { readonly name: string; readonly summary: string; readonly flags: readonly CompletedFlag[] };

type CompletedFlag = {
  /** Includes the dashes. */
  readonly name: string;
  /** Beginning of its help. */
  readonly help: string;
  readonly takesValue: boolean;
  /** Names of values; none if they are paths, numbers or free text. */
  readonly names: readonly string[];
};

const shells: Readonly<Record<string, (commands: readonly Completed[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

export function completionCommand(run: RunCommand, loadCommands: () => Promise<readonly Command[]>): Command {
  return new NewCommand("completion")
    .summary("print a script that completes commands, flags and names in your shell")
    .description("Prints a script for bash, zsh or fish. It completes the installed program, trainable-agents.")
    .argument("<shell>", "bash, zsh or fish")
    .addHelpText("after", examples)
    .action(async (shell: string) => run((context) => printScript(shell, loadCommands, context)));
}

const examples = `
Examples:
  # bash, in ~/.bashrc; zsh, in ~/.zshrc after compinit.
  $ source <(trainable-agents completion bash)
  $ source <(trainable-agents completion zsh)

  # fish, once.
  $ trainable-agents completion fish > ~/.config/fish/completions/trainable-agents.fish`;

async function printScript(
  shell: string,
  loadCommands: () => Promise<readonly Command[]>,
  { stdout }: CliContext,
): Promise<number> {
  const script = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
  if (script === undefined) {
    throw new ConfigurationError(
      `Cannot complete in "${shell}": there is no script for that shell; ${remedyFor(shell, Object.keys(shells))}`,
    );
  }
  stdout.write(script((await loadCommands()).map(completed)));
  return exitCodes.done;
}

function completed(command: Command): Completed {
  const own = command.options.map(completedFlag).filter(({ name }) => name !== "--help-all");
  return {
    name: command.name(),
    summary: command.summary(),
    flags: [...own, ...["--help", "--help-all"].map(flagNamed)],
  };
}

function flagNamed(name: string): CompletedFlag {
  return { name, help: "show the help", takesValue: false, names: [] };
}

function completedFlag(option: Option): CompletedFlag {
  const setting = settingOf(option);
  const names = option.argChoices ?? (setting === undefined ? [] : suggestedNames(setting));
  return {
    name: option.long ?? option.flags,
    help: option.description.split(/[;:(]| - /)[0]!.trim(),
    takesValue: option.required || option.optional,
    // A name with other characters would need the quoting of each shell.
    names: names.filter((name) => /^[\w./-]+$/.test(name)),
  };
}

const names = (commands: readonly Completed[]): string => commands.map(({ name }) => name).join(" ");

/** One line for each flag whose value has names: `line` gets "command flag" and the names. */
const valueLines = (commands: readonly Completed[], line: (key: string, names: string) => string): string =>
  commands
    .flatMap(({ name: command, flags }) =>
      flags.flatMap(({ name, names: values }) =>
        values.length === 0 ? [] : [line(`${command} ${name}`, values.join(" "))],
      ),
    )
    .join("\n");

const flagLines = (commands: readonly Completed[], line: (command: string, flags: string) => string): string =>
  commands.map(({ name, flags }) => line(name, flags.map((flag) => flag.name).join(" "))).join("\n");

function bashScript(commands: readonly Completed[]): string {
  return `# Completion of trainable-agents for bash; made by: trainable-agents completion bash
_trainable_agents() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words=""
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    words="${names(commands)} help --help --version"
  else
    case "\${COMP_WORDS[1]} $previous" in
${valueLines(commands, (key, values) => `      "${key}") words="${values}" ;;`)}
      *)
        [[ "$current" == -* ]] && case "\${COMP_WORDS[1]}" in
${flagLines(commands, (command, flags) => `          "${command}") words="${flags}" ;;`)}
        esac
        ;;
    esac
  fi
  [[ -z "$words" ]] || COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o bashdefault -o default -F _trainable_agents trainable-agents
`;
}

function zshScript(commands: readonly Completed[]): string {
  return `#compdef trainable-agents
# Completion of trainable-agents for zsh; made by: trainable-agents completion zsh
_trainable_agents() {
  if (( CURRENT == 2 )); then
    compadd -- ${names(commands)} help --help --version
    return
  fi
  case "\${words[2]} \${words[CURRENT-1]}" in
${valueLines(commands, (key, values) => `    ("${key}") compadd -- ${values}; return ;;`)}
  esac
  if [[ "$PREFIX" == -* ]]; then
    case "\${words[2]}" in
${flagLines(commands, (command, flags) => `      ("${command}") compadd -- ${flags} ;;`)}
    esac
  else
    _files
  fi
}
compdef _trainable_agents trainable-agents
`;
}

function fishScript(commands: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const line = (...words: readonly string[]): string => ["complete -c trainable-agents", ...words].join(" ");
  const lines = commands.flatMap(({ name: command, summary, flags }) => [
    line("-n __fish_use_subcommand -f", `-a ${command}`, `-d ${quoted(summary)}`),
    ...flags.map(({ name, help, takesValue, names: values }) =>
      line(
        `-n '__fish_seen_subcommand_from ${command}'`,
        `-l ${name.slice(2)}`,
        ...(values.length > 0 ? [`-x -a ${quoted(values.join(" "))}`] : takesValue ? ["-r"] : []),
        `-d ${quoted(help)}`,
      ),
    ),
  ]);
  return `# Completion of trainable-agents for fish; made by: trainable-agents completion fish\n${lines.join("\n")}\n`;
}
