// Users by name, each loaded only when it is chosen, since a rollout needs one of them.
// `selectUser` has the same names synchronously.

import { ConfigurationError, type UserSource } from "../core/index.ts";
import { remedyFor } from "../lib/nearest.ts";
import type { SelectUserOptions } from "./select-user.ts";

const modelUser = async (name: "llmUser" | "reactUser" | "verifyUser" | "reflectionUser", options: SelectUserOptions) =>
  (await import("./model-user.ts"))[name](options.model ?? {});

const loaders: Readonly<Record<string, (options: SelectUserOptions) => Promise<UserSource>>> = {
  agenda: async () => (await import("./agenda.ts")).agendaUser(),
  llm: (options) => modelUser("llmUser", options),
  react: (options) => modelUser("reactUser", options),
  verify: (options) => modelUser("verifyUser", options),
  reflection: (options) => modelUser("reflectionUser", options),
  human: async ({ human }) => (await import("./human-user.ts")).humanUser(human),
  scripted: async ({ lines = [] }) => (await import("./scripted-user.ts")).scriptedUsers(lines),
  task: async () => (await import("./task-user.ts")).taskUser(),
  replay: async ({ exchanges = [] }) => (await import("./recording-user.ts")).replayingUser(exchanges),
};

export const userNames: readonly string[] = Object.keys(loaders);

/** The user of a name. Rejects with a `ConfigurationError` that lists the names. */
export async function loadUser(name: string, options: SelectUserOptions = {}): Promise<UserSource> {
  const load = Object.hasOwn(loaders, name) ? loaders[name] : undefined;
  if (load !== undefined) return load(options);
  throw new ConfigurationError(
    `Cannot select user "${name}": there is none of that name; ${remedyFor(name, userNames)}`,
  );
}
