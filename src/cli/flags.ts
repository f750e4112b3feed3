// Flags of commands, generated from tables of settings, and those that several commands share.

import { type Command, Option } from "commander";
import { renamedSettings } from "../api/rollout-settings.ts";
import type { Setting } from "../parts/setting.ts";
import { visibleJson } from "../lib/text.ts";
import { type CliContext, exitCodes } from "./cli-context.ts";

const settings = new WeakMap<Option, Setting<unknown>>();

/** The setting of a flag; `undefined` for a flag that is none. */
export const settingOf = (option: Option): Setting<unknown> | undefined => settings.get(option);

type Table = Readonly<Record<string, Setting<unknown>>>;

/**
 * Adds the settings of a table, each with its default under its heading, or under `heading`.
 * `initial`: defaults of this command.
 */
export function addSettings(
  command: Command,
  table: Table,
  {
    names = Object.keys(table),
    initial = {},
    heading,
  }: {
    readonly names?: readonly string[];
    readonly initial?: Readonly<Record<string, unknown>>;
    readonly heading?: string;
  } = {},
): Command {
  for (const name of names) {
    const { group, flag, help, default: value } = table[name]!;
    const shown = initial[name] ?? value;
    const isShown = (typeof shown === "number" || typeof shown === "string") && !help.includes("(default");
    const option = new Option(flag, isShown ? `${help} (default: ${shown})` : help).helpGroup(`${heading ?? group}:`);
    settings.set(option, table[name]!);
    command.addOption(option);
  }
  return command;
}

export const configOption = (): Option =>
  new Option("--config <file>", "YAML file with rollout settings; flags override it").helpGroup("Output:");

export const dryRunOption = (): Option =>
  new Option("--dry-run", "check everything except the server, print the configuration and exit").helpGroup("Output:");

export const jsonOption = (): Option => new Option("--json", "print the result as JSON").helpGroup("Output:");

/**
 * The result of a command for programs, in place of the output for people. Types:
 * docs/reference.md.
 */
export function writeJson(result: object, { stdout }: Pick<CliContext, "stdout">): number {
  stdout.write(`${visibleJson(JSON.stringify(result, null, 2))}\n`);
  return exitCodes.done;
}

export const resumeOption = (): Option =>
  new Option(
    "--resume <run>",
    "continue the run in this folder, with its settings; only addresses, keys, concurrency and the like may be changed",
  ).helpGroup("Output:");

/** Replaces earlier names of flags by the present ones: earlier names are read and never shown. */
export function withTodaysNames(argv: readonly string[]): string[] {
  return argv.map((word) => {
    const [, key = "", rest = ""] = /^--([\w-]+)(=.*)?$/s.exec(word) ?? [];
    const name = argv[0] === "train" && key === "samples" ? "group-size" : renamedSettings.get(key);
    return name === undefined ? word : `--${name}${rest}`;
  });
}

/** The help lists only these flags, by their attribute names; `--help-all` lists all. */
export function shortHelp(command: Command, common: readonly string[]): Command {
  const hidden = command.options.filter((option) => !option.hidden && !common.includes(option.attributeName()));
  for (const option of hidden) option.hidden = true;
  return addHelpAll(command, hidden);
}

/** `--help-all` for a command whose help hides these flags; if it hides none, the flag itself is hidden. */
export function addHelpAll(command: Command, hidden: readonly Option[]): Command {
  const option = new Option("--help-all", "show all flags").hideHelp(hidden.length === 0);
  command.addOption(option);
  command.on("option:help-all", () => {
    for (const one of hidden) one.hidden = false;
    command.help();
  });
  return command;
}
