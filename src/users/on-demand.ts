// The registry of users: each is loaded only when it is chosen, since a rollout needs one of them.
// `selectUser` makes those of this package without waiting.

import { ConfigurationError, type UserSource } from "../core/index.ts";
import { type OptionTable, optionsOfAll, type SettingValues } from "../parts/setting.ts";
import type { ModelUserOptions } from "./model-user.ts";
import { modelUserOptions, replayOptions, scriptedOptions } from "./options.ts";

/** Options for creating the user of a run, and access to what they name. */
export type UserContext<Values> = {
  /** The user's own options. */
  readonly options: Values;
  /** The model that simulates a user. Rejects with a `ConfigurationError` if none is named. */
  model(this: void): Promise<ModelUserOptions>;
  /** The text of a file; `remedy` ends the message if it cannot be read. */
  readText(this: void, file: string, remedy: string): Promise<string>;
};

/** Row of a user in the registry. */
export type UserRow<Options extends OptionTable = OptionTable> = {
  /**
   * Environments that run with the user: those that list it, those that list user "llm", or all; "named": a user that is
   * chosen by giving its option.
   */
  readonly runsWith: "listed" | "llm" | "everything" | "named";
  /** The option that chooses this user where none is named; `null` if there is none. */
  readonly chosenBy: string | null;
  readonly options: Options;
  /** Imports the user; `createUser` rejects with a `ConfigurationError` for options that do not fit. */
  load(): Promise<{
    createUser(this: void, context: UserContext<SettingValues<Options>>): UserSource | Promise<UserSource>;
  }>;
};

const row = <Options extends OptionTable>(
  options: Options,
  facts: Omit<UserRow<Options>, "options" | "chosenBy"> & Partial<Pick<UserRow<Options>, "chosenBy">>,
): UserRow<Options> => ({ chosenBy: null, ...facts, options });

const modelUser = (name: "llmUser" | "reactUser" | "verifyUser" | "reflectionUser") =>
  row(modelUserOptions, {
    runsWith: "llm",
    chosenBy: name === "llmUser" ? "userModel" : null,
    load: async () => {
      const create = (await import("./model-user.ts"))[name];
      return { createUser: async ({ model }) => create(await model()) };
    },
  });

const rows = {
  agenda: row(
    {},
    {
      runsWith: "listed",
      load: async () => ({ createUser: (await import("./agenda.ts")).agendaUser }),
    },
  ),
  llm: modelUser("llmUser"),
  react: modelUser("reactUser"),
  verify: modelUser("verifyUser"),
  reflection: modelUser("reflectionUser"),
  human: row(
    {},
    {
      runsWith: "listed",
      load: async () => {
        const { humanUser } = await import("./human-user.ts");
        return { createUser: () => humanUser() };
      },
    },
  ),
  scripted: row(scriptedOptions, {
    runsWith: "listed",
    chosenBy: "userLines",
    load: async () => {
      const { scriptedUsers } = await import("./scripted-user.ts");
      return {
        createUser: async ({ options: { userLines }, readText }) => {
          if (userLines === null) throw nothingToSay();
          const text = await readText(userLines, "correct --user-lines.");
          return scriptedUsers(text.split(/\r?\n/).filter((line) => line.trim() !== ""));
        },
      };
    },
  }),
  task: row(
    {},
    {
      runsWith: "everything",
      load: async () => {
        const { taskUser } = await import("./task-user.ts");
        return { createUser: () => taskUser() };
      },
    },
  ),
  replay: row(replayOptions, {
    runsWith: "named",
    chosenBy: "replayUsers",
    load: async () => {
      const { parseUserExchanges, replayingUser } = await import("./recording-user.ts");
      return {
        createUser: async ({ options: { replayUsers }, readText }) =>
          replayingUser(parseUserExchanges(await readText(replayUsers ?? "", "correct --replay-users."))),
      };
    },
  }),
};

function nothingToSay(): ConfigurationError {
  return new ConfigurationError(
    'Cannot create user "scripted": it has nothing to say; pass a file of lines with --user-lines.',
  );
}

export const userRows: Readonly<Record<string, UserRow>> = rows;
export const userNames: readonly string[] = Object.keys(rows);
/** The options of all users. */
export const userOptions = optionsOfAll(rows);
export const userOptionNames = Object.keys(userOptions) as readonly (keyof typeof userOptions)[];
/** Those of users that meet any agent; a recording belongs to the run that it was made in. */
export const hostedUserOptionNames = userOptionNames.filter((name) => name !== "replayUsers");
