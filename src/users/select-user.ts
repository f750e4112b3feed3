// Chooses a user by its name without waiting, with all users loaded: for programs. A rollout loads one, by
// `on-demand.ts`.

import { ConfigurationError, type UserSource } from "../core/index.ts";
import { remedyFor } from "../lib/nearest.ts";
import { agendaUser } from "./agenda.ts";
import { humanUser, type HumanUserOptions } from "./human-user.ts";
import { llmUser, type ModelUserOptions, reactUser, reflectionUser, verifyUser } from "./model-user.ts";
import { replayingUser, type UserExchange } from "./recording-user.ts";
import { scriptedUsers, type UserStep } from "./scripted-user.ts";
import { taskUser } from "./task-user.ts";

/** Options of all users; only those of the chosen user are read. */
export type SelectUserOptions = {
  /** Settings of "llm", "react", "verify" and "reflection". */
  readonly model?: ModelUserOptions;
  /** Settings of "human". */
  readonly human?: HumanUserOptions;
  /** Lines of "scripted"; every episode gets the same lines. */
  readonly lines?: readonly UserStep[];
  /** Exchanges of "replay". */
  readonly exchanges?: readonly UserExchange[];
};

const makers: Readonly<Record<string, (options: SelectUserOptions) => UserSource>> = {
  agenda: () => agendaUser(),
  llm: ({ model = {} }) => llmUser(model),
  react: ({ model = {} }) => reactUser(model),
  verify: ({ model = {} }) => verifyUser(model),
  reflection: ({ model = {} }) => reflectionUser(model),
  human: ({ human }) => humanUser(human),
  scripted: (options) => scriptedUsers(required(options, "scripted", "lines")),
  task: () => taskUser(),
  replay: (options) => replayingUser(required(options, "replay", "exchanges")),
};

/**
 * The user of a name. Throws a `ConfigurationError` that lists the names, or names the missing
 * setting of the chosen user.
 */
export function selectUser(name: string, options: SelectUserOptions = {}): UserSource {
  const make = Object.hasOwn(makers, name) ? makers[name] : undefined;
  if (make !== undefined) return make(options);
  throw new ConfigurationError(
    `Cannot select user "${name}": it does not exist; ${remedyFor(name, Object.keys(makers))}`,
  );
}

/** The option of a user; throws a `ConfigurationError` if it is missing. */
function required<Name extends keyof SelectUserOptions>(
  options: SelectUserOptions,
  user: string,
  name: Name,
): NonNullable<SelectUserOptions[Name]> {
  const value = options[name];
  if (value !== undefined) return value;
  throw new ConfigurationError(`Cannot create user "${user}": it has no ${name}; pass them in the option "${name}".`);
}
