// A task's configuration, `task.toml`, as Harbor 0.25 reads it: unknown keys are ignored, and any
// version of the schema is accepted. What the sandbox cannot give is collected by name, so that a
// run with such a task is refused before it begins.

import { posix } from "node:path";
import { parse } from "smol-toml";
import { z } from "zod";
import { anyNames } from "../../lib/any-names.ts";

/** Seconds; Harbor waits without an end where a task names none. */
const seconds = z.number().positive().max(2_000_000);
const text = z.string().max(10_000);
const variables = anyNames(text, { name: z.string().regex(/^[A-Za-z_]\w*$/) }).default({});
const network = z.enum(["public", "no-network", "allowlist"]);
const some = z.unknown().optional();

const phase = {
  user: z.union([z.string(), z.number()]).optional(),
  network_mode: network.optional(),
  allowed_hosts: z.array(z.string()).optional(),
};

const schema = z.object({
  agent: z.object({ ...phase, timeout_sec: seconds.optional() }).default({}),
  verifier: z
    .object({
      ...phase,
      timeout_sec: seconds.default(600),
      env: variables,
      environment_mode: z.enum(["shared", "separate"]).default("shared"),
      environment: some,
      collect: z.array(z.unknown()).optional(),
    })
    .prefault({}),
  environment: z
    .object({
      docker_image: z.string().optional(),
      os: z.string().default("linux"),
      cpus: z.number().positive().max(1024).optional(),
      memory_mb: z.number().positive().max(10_000_000).optional(),
      memory: z.string().optional(),
      storage_mb: z.number().positive().max(100_000_000).optional(),
      storage: z.string().optional(),
      gpus: z.number().optional(),
      gpu_types: z.array(z.string()).nullish(),
      tpu: some,
      mcp_servers: z.array(z.unknown()).optional(),
      env: variables,
      skills_dir: z.string().nullish(),
      healthcheck: some,
      workdir: z.string().optional(),
      network_mode: network.optional(),
      allowed_hosts: z.array(z.string()).optional(),
      allow_internet: z.boolean().optional(),
    })
    .prefault({}),
  solution: z.object({ env: variables }).prefault({}),
  steps: z.array(z.unknown()).optional(),
});

/** Settings of a task, with Harbor's defaults. */
export type TaskSettings = {
  /** Time of the whole agent; `null`: no limit. */
  readonly agentSeconds: number | null;
  readonly verifierSeconds: number;
  readonly hasNetwork: boolean;
  /** Absolute; `null` if the file names none. */
  readonly workdir: string | null;
  readonly cpus: number | null;
  readonly memoryMb: number | null;
  readonly storageMb: number | null;
  /** Variables with their references to variables of this process resolved. */
  readonly variables: Readonly<Record<"environment" | "verifier" | "solution", Readonly<Record<string, string>>>>;
  /** Requests that the sandbox cannot meet, as phrases for a message. */
  readonly refused: readonly string[];
};

/**
 * Reads the file. `variables`: those of this process that tasks may read. Throws a plain error for a
 * file that is not TOML, or has a value of a wrong type.
 */
export function readTaskFile(
  content: string,
  { variables: readable }: { readonly variables: Readonly<Record<string, string | undefined>> },
): TaskSettings {
  const { success, data, error } = schema.safeParse(parse(content));
  if (!success) throw new Error(z.prettifyError(error).replaceAll(/\s+/g, " "));
  const { agent, verifier, environment, solution } = data;
  const refused: string[] = [];
  const refuse = (isAsked: boolean, what: string): void => {
    if (isAsked) refused.push(what);
  };
  const isRoot = (user: string | number | undefined): boolean =>
    user === undefined || user === "root" || user === 0 || user === "0";
  refuse(environment.docker_image !== undefined, `[environment] docker_image "${environment.docker_image}"`);
  refuse(environment.os !== "linux", `[environment] os "${environment.os}"`);
  refuse((environment.gpus ?? 0) > 0 || (environment.gpu_types ?? []).length > 0, "[environment] gpus");
  refuse(isGiven(environment.tpu), "[environment] tpu");
  refuse((environment.mcp_servers ?? []).length > 0, "[environment] mcp_servers");
  refuse((environment.skills_dir ?? "") !== "", "[environment] skills_dir");
  refuse(isGiven(environment.healthcheck), "[environment.healthcheck]");
  refuse(!isRoot(agent.user), `[agent] user "${agent.user}"`);
  refuse(!isRoot(verifier.user), `[verifier] user "${verifier.user}"`);
  refuse(verifier.environment_mode === "separate", '[verifier] environment_mode "separate"');
  refuse(isGiven(verifier.environment), "[verifier.environment]");
  refuse((verifier.collect ?? []).length > 0, "[[verifier.collect]]");
  refuse((data.steps ?? []).length > 0, "[[steps]]");
  for (const [name, part] of Object.entries({ environment, agent, verifier })) {
    const isListed = part.network_mode === "allowlist" || (part.allowed_hosts ?? []).length > 0;
    refuse(isListed, `[${name}] network_mode "allowlist"`);
  }
  const inherited = environment.network_mode ?? (environment.allow_internet === false ? "no-network" : "public");
  for (const [name, { network_mode: own }] of Object.entries({ agent, verifier })) {
    refuse(
      own !== undefined && own !== inherited,
      `[${name}] network_mode "${own}" in an environment with "${inherited}"`,
    );
  }
  const { workdir } = environment;
  if (workdir !== undefined && !posix.isAbsolute(workdir)) {
    throw new Error(`[environment] workdir is "${workdir}", expected an absolute path`);
  }
  const resolved = (given: Readonly<Record<string, string>>, section: string): Readonly<Record<string, string>> =>
    Object.fromEntries(
      Object.entries(given).map(([name, value]) => [
        name,
        resolveVariables(value, readable, (missing) => refused.push(`the variable ${missing} in [${section}]`)),
      ]),
    );
  return {
    agentSeconds: agent.timeout_sec ?? null,
    verifierSeconds: verifier.timeout_sec,
    hasNetwork: inherited === "public",
    workdir: workdir === undefined ? null : posix.normalize(workdir),
    cpus: environment.cpus ?? null,
    memoryMb: environment.memory_mb ?? megabytes(environment.memory, "memory"),
    storageMb: environment.storage_mb ?? megabytes(environment.storage, "storage"),
    variables: {
      environment: resolved(environment.env, "environment.env"),
      verifier: resolved(verifier.env, "verifier.env"),
      solution: resolved(solution.env, "solution.env"),
    },
    refused,
  };
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** "2G" of older files. */
function megabytes(size: string | undefined, name: string): number | null {
  if (size === undefined) return null;
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([KMG])(?:i?B)?\s*$/i.exec(size) ?? [];
  if (number === undefined) throw new Error(`[environment] ${name} is "${size}", expected a size like "2G"`);
  return Number(number) * { K: 1 / 1024, M: 1, G: 1024 }[unit!.toUpperCase() as "K" | "M" | "G"];
}

/** Replaces a value `${NAME}` or `${NAME:-default}`, which must be the whole value, as in Harbor. */
function resolveVariables(
  value: string,
  readable: Readonly<Record<string, string | undefined>>,
  onMissing: (name: string) => void,
): string {
  const [, name, initial] = /^\$\{([^}:]+)(?::-(.*))?\}$/.exec(value) ?? [];
  if (name === undefined) return value;
  const found = Object.hasOwn(readable, name) ? readable[name] : undefined;
  if (found !== undefined) return found;
  if (initial === undefined) onMissing(name);
  return initial ?? "";
}
