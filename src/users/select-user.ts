// Chooses a user by its name without waiting, with all users loaded: for programs. A rollout loads one, by
// `on-demand.ts`.

import type { UserSource } from "../core/index.ts";
import { agendaUser } from "./agenda.ts";
import { humanUser } from "./human-user.ts";
import { llmUser, reactUser, reflectionUser, verifyUser } from "./model-user.ts";
import { knownUser, required, type SelectUserOptions, type UserName } from "./on-demand.ts";
import { replayingUser } from "./recording-user.ts";
import { scriptedUsers } from "./scripted-user.ts";
import { taskUser } from "./task-user.ts";

const makers: Readonly<Record<UserName, (options: SelectUserOptions) => UserSource>> = {
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
  return makers[knownUser(name)](options);
}
