// Outside agent programs as the policy of a rollout: their settings, and the gateway through which
// they sample. A program runs by itself (`--agent-command`) or is prompted over ACP (`--agent-acp`).

import { ConfigurationError, type EnvironmentSource, type UserSource } from "../core/index.ts";
import type { AgentPermissions, AgentPrograms } from "../gateway/index.ts";
import { milliseconds } from "../parts/setting.ts";
import { isTaskFile } from "./load-environment.ts";
import { agentProgram, type RolloutSettings } from "./rollout-settings.ts";
import { packageVersion, type Surroundings } from "./surroundings.ts";

export function unnamedModel(): ConfigurationError {
  return new ConfigurationError(
    "Cannot run agent programs: no model is named to answer their calls; pass --agent-url <OpenAI-compatible address> or " +
      "--agent-model <provider/model> to evaluate them with their own model, --url and --model (or --engine) for a policy that is " +
      "trained, or --engine none for programs that call a model by themselves.",
  );
}

/**
 * Refuses settings that have no effect on a program, which has its own loop and prompts, with a
 * `ConfigurationError`.
 */
export function checkAgentProgram(settings: RolloutSettings): void {
  const { agentCommand, agentAcp, preset, strategy, faultPolicy, calls, routedExperts, samplingMask } = settings;
  if (agentCommand !== null && agentAcp !== null) {
    throw new ConfigurationError(
      "Cannot use --agent-acp with --agent-command: both run the episodes; remove one of them.",
    );
  }
  const unread = [
    preset === null ? null : "--preset",
    strategy === "tool-calling" ? null : "--strategy",
    faultPolicy === "keep" ? null : "--fault-policy",
    calls === "one" ? null : "--calls",
    // Turns begin and branch where the program decides, so the experts of turns cannot be joined.
    routedExperts === null ? null : "--routed-experts",
    samplingMask ? "--sampling-mask" : null,
  ].find((flag) => flag !== null);
  if (unread === undefined) return;
  throw new ConfigurationError(
    `Cannot use ${unread} with ${agentAcp === null ? "--agent-command" : "--agent-acp"}: the program has a loop of its own, where it has no effect; remove one of them.`,
  );
}

/**
 * Opens the gateway of the programs. Programs with tasks of an environment may call its tools, and
 * are graded by it; those of a file have worlds of their own.
 */
export async function openPrograms(
  parts: {
    readonly settings: RolloutSettings;
    readonly environment: EnvironmentSource;
    readonly user: UserSource;
    readonly redact: (text: string) => string;
  },
  { cwd, env: variables }: Surroundings,
): Promise<AgentPrograms> {
  const { settings, environment, user, redact } = parts;
  const { agentAcp, agentTimeout, model, engine, agentModel, split, openTimeout, environmentTimeout } = settings;
  const hasWorld = !isTaskFile(environment);
  const acp =
    agentAcp === null ? null : { permissions: await permissionsOf(settings, hasWorld), version: packageVersion() };
  const { openAgentPrograms } = await import("../gateway/index.ts");
  const { agentTaskLine } = await import("./agent-tasks.ts");
  const hosted = {
    source: environment,
    split: split ?? environment.splits[0] ?? "",
    user,
    redact,
    callMs: milliseconds(environmentTimeout),
    openMs: milliseconds(openTimeout),
  };
  // Sessions end with their programs.
  const bounds = { maxSessions: Infinity, idleMs: milliseconds(agentTimeout) };
  const worlds = hasWorld ? (await import("./gateway-worlds.ts")).openWorlds(hosted, bounds) : null;
  const programs = await openAgentPrograms({
    command: agentProgram(settings) ?? "",
    acp,
    timeoutMs: milliseconds(agentTimeout),
    cwd,
    variables,
    redact,
    worlds,
    taskLine: (task) => agentTaskLine(environment, task, user.name),
    modelName: agentModel ?? model ?? engine ?? "policy",
  });
  return {
    ...programs,
    close: async () => {
      await programs.close();
      await worlds?.closeAll();
    },
  };
}

/** Rejects with a `ConfigurationError` for tasks without a user, and for unknown permissions. */
async function permissionsOf({ env, agentPermissions }: RolloutSettings, hasWorld: boolean): Promise<AgentPermissions> {
  const { loadAcp, permissionKinds } = await import("../gateway/index.ts");
  if (!hasWorld) {
    throw new ConfigurationError(
      `Cannot use --agent-acp with "${env}": it is a file of tasks, and the agent is prompted by the user of an environment; name one with --env, or pass --agent-command.`,
    );
  }
  await loadAcp();
  if (agentPermissions === "all") return "all";
  if (agentPermissions === "none") return [];
  const permissions = agentPermissions.split(",").map((kind) => kind.trim());
  const unknown = permissions.find((kind) => !(permissionKinds as readonly string[]).includes(kind));
  if (unknown === undefined) return permissions;
  throw new ConfigurationError(
    `Cannot use --agent-permissions "${agentPermissions}": "${unknown}" is not a kind of tool call; use all, none, or some of ${permissionKinds.join(", ")}.`,
  );
}
