// Users by name, each loaded only when it is chosen, since a rollout needs one of them.
// `selectUser` has the same names synchronously.

import { ConfigurationError, type UserSource } from "../core/index.ts";
import { remedyFor } from "../lib/nearest.ts";
import type { HumanUserOptions } from "./human-user.ts";
import type { ModelUserOptions } from "./model-user.ts";
import type { UserExchange } from "./recording-user.ts";
import type { UserStep } from "./scripted-user.ts";

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

export type UserName = "agenda" | "llm" | "react" | "verify" | "reflection" | "human" | "scripted" | "task" | "replay";

const modelUser = () => import("./model-user.ts");

const loaders: Readonly<Record<UserName, (options: SelectUserOptions) => Promise<UserSource>>> = {
  agenda: async () => (await import("./agenda.ts")).agendaUser(),
  llm: async ({ model = {} }) => (await modelUser()).llmUser(model),
  react: async ({ model = {} }) => (await modelUser()).reactUser(model),
  verify: async ({ model = {} }) => (await modelUser()).verifyUser(model),
  reflection: async ({ model = {} }) => (await modelUser()).reflectionUser(model),
  human: async ({ human }) => (await import("./human-user.ts")).humanUser(human),
  scripted: async (options) =>
    (await import("./scripted-user.ts")).scriptedUsers(required(options, "scripted", "lines")),
  task: async () => (await import("./task-user.ts")).taskUser(),
  replay: async (options) =>
    (await import("./recording-user.ts")).replayingUser(required(options, "replay", "exchanges")),
};

export const userNames: readonly string[] = Object.keys(loaders);

/**
 * The user of a name. Rejects with a `ConfigurationError` that lists the names, or names the
 * missing setting of the chosen user.
 */
export async function loadUser(name: string, options: SelectUserOptions = {}): Promise<UserSource> {
  return loaders[knownUser(name)](options);
}

/** Throws a `ConfigurationError` that lists the names if the name is not among them. */
export function knownUser(name: string): UserName {
  if (Object.hasOwn(loaders, name)) return name as UserName;
  throw new ConfigurationError(
    `Cannot select user "${name}": there is none of that name; ${remedyFor(name, userNames)}`,
  );
}

/** The option of a user; throws a `ConfigurationError` if it is missing. */
export function required<Name extends keyof SelectUserOptions>(
  options: SelectUserOptions,
  user: UserName,
  name: Name,
): NonNullable<SelectUserOptions[Name]> {
  const value = options[name];
  if (value !== undefined) return value;
  throw new ConfigurationError(`Cannot make user "${user}": it has no ${name}; give them in the option "${name}".`);
}
