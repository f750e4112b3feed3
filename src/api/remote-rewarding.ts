// OpenEnv and ORS environments from an address: `openenv:ws://127.0.0.1:8000?reward=last` with
// tasks that are seeds or lines of a file, `ors:http://127.0.0.1:8080/<environment>` with the
// server's own tasks.

import { z } from "zod";
import { AttributedError, ConfigurationError } from "../core/index.ts";
import { openEnvService, type OpenEnvOptions, seedTasks } from "../environments/remote/openenv/index.ts";
import { orsService } from "../environments/remote/ors/index.ts";
import {
  remoteSource,
  type RewardRule,
  rewardRules,
  type UnrewardedRule,
  unrewardedRules,
} from "../environments/remote/index.ts";
import { loadedRemote, type RemoteAddress, type RemoteContext, readRemoteAddress } from "./remote-options.ts";
import type { Access } from "../parts/engine.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";
import { readAccess } from "./secrets.ts";
import { openTasks, type RowReader, splitFacts } from "../task-files/index.ts";
import { anyNames } from "../lib/any-names.ts";

/** Options of both protocols. */
const shared = ["reward", "capacity", "deterministic", "unrewarded"];

/** Throws a `ConfigurationError` for an address, a task or a server that cannot be used. */
export async function openOpenEnv(context: RemoteContext<"envTasks">): Promise<LoadedEnvironment> {
  const known = [...shared, "text", "exceptions", "environment"];
  const read = readRemoteAddress(context.rest, { what: "OpenEnv server", known });
  const [field, environment] = [read.text("text"), read.text("environment")];
  const exceptions = read.choice("exceptions", ["fault", "observation"]);
  const { apiKey: token, authorization } = accessOf(context);
  const service = await reached(async () =>
    openEnvService({
      url: `${read.origin}${read.path}${read.search}`,
      authorization,
      tasks: await openEnvTasks(context),
      ...(field === null ? {} : { observationField: field }),
      ...(environment === null ? {} : { environment }),
      ...rewardsOf(read),
      ...(exceptions === null ? {} : { exceptions }),
      ...(token === null ? {} : { token }),
      capacity: read.count("capacity"),
      deterministic: read.flag("deterministic") ?? false,
    }),
  );
  return loadedRemote(remoteSource(service, { limits: context.limits }));
}

/** `seeds:100` (0 to 99), `seeds:100-199`, or a file of tasks; `null` if the server has its own tasks. */
async function openEnvTasks({
  options: { envTasks },
  cwd,
  importDefault,
}: RemoteContext<"envTasks">): Promise<NonNullable<OpenEnvOptions["tasks"]> | null> {
  const remedy =
    "pass --env-tasks seeds:100, whose tasks differ in the seed of their reset, or a file with one task per line";
  if (envTasks === null) return null;
  const seeds = /^seeds:(\d{1,9})(?:-(\d{1,9}))?$/.exec(envTasks);
  if (seeds !== null) {
    const [from, to] = seeds[2] === undefined ? [0, Number(seeds[1]) - 1] : [Number(seeds[1]), Number(seeds[2])];
    if (to >= from && to - from < mostSeeds) return { train: seedTasks(from, to) };
    throw new ConfigurationError(
      `Cannot create tasks of "${envTasks}": from 1 to ${mostSeeds} seeds are possible; correct --env-tasks.`,
    );
  }
  if (envTasks.startsWith("seeds:")) throw new ConfigurationError(`Cannot create tasks of "${envTasks}": ${remedy}.`);
  const table = await openTasks(envTasks, { cwd, reader, flag: "--env-tasks", importDefault });
  return {
    ...splitFacts(table),
    task: (split, index) => {
      const { fields, place } = table.row(split, index);
      const { instruction, reset } = readTask(fields, place);
      return { instruction, reset };
    },
  };
}

const mostSeeds = 10_000_000;

const taskFields = z.strictObject({
  split: z.string().min(1).default("train"),
  instruction: z.string().nullable().default(null),
  reset: anyNames(z.unknown()).default({}),
});

const reader: RowReader = {
  name: "openenv-1",
  defaultSplit: "train",
  read: (fields, place) => ({ id: null, split: readTask(fields, place).split, traits: [] }),
};

function readTask(fields: unknown, place: string): z.infer<typeof taskFields> {
  const { success, data, error } = taskFields.safeParse(fields);
  if (success) return data;
  throw new ConfigurationError(
    `Cannot read ${place}: ${z.prettifyError(error).replaceAll(/\s+/g, " ")}; a task is {"reset": {...}, "instruction": "...", "split": "train"}, all of them optional.`,
  );
}

/** Throws a `ConfigurationError` for an address or a server that cannot be used. */
export async function openOrs(context: RemoteContext): Promise<LoadedEnvironment> {
  const read = readRemoteAddress(context.rest, { what: "ORS server", known: [...shared, "secrets_env"] });
  const { apiKey, authorization } = accessOf(context);
  const environment = /\/([^/]+)$/.exec(read.path)?.[1];
  const path = environment === undefined ? "" : read.path.slice(0, -environment.length - 1);
  const names = read.text("secrets_env")?.split(",") ?? [];
  const service = await reached(() =>
    orsService({
      url: `${read.origin}${path}${read.search}`,
      authorization,
      ...(environment === undefined ? {} : { environment: decodeURIComponent(environment) }),
      ...(apiKey === null ? {} : { apiKey }),
      secrets: Object.fromEntries(names.map((name) => [name, variable(name, context)])),
      ...rewardsOf(read),
      capacity: read.count("capacity"),
      deterministic: read.flag("deterministic") ?? false,
    }),
  );
  return loadedRemote(remoteSource(service, { limits: context.limits }));
}

function rewardsOf(read: RemoteAddress): { readonly reward?: RewardRule; readonly unrewarded?: UnrewardedRule } {
  const [reward, unrewarded] = [read.choice("reward", rewardRules), read.choice("unrewarded", unrewardedRules)];
  return { ...(reward === null ? {} : { reward }), ...(unrewarded === null ? {} : { unrewarded }) };
}

function accessOf(context: RemoteContext): Access {
  return readAccess("env", context.options, context.variables);
}

function variable(name: string, { variables }: RemoteContext): string {
  const value = variables[name];
  if (value !== undefined && value !== "") return value;
  throw new ConfigurationError(`Cannot reach the ORS server: variable ${name} is not set; set it, or correct --env.`);
}

/** Turns faults before the first episode into errors that the user can correct. */
async function reached<T>(contact: () => Promise<T>): Promise<T> {
  try {
    return await contact();
  } catch (error) {
    if (!(error instanceof AttributedError)) throw error;
    throw new ConfigurationError(error.message, { cause: error });
  }
}
