// auditEnvironment(): runs an environment without a model, before anything is trained, and reports
// on its contract, the reward of a policy that looks at nothing, the duration of steps, and the
// lines and answers of a simulated user. loadEnvironmentSource(): loads the environment that
// `--env` names.

import { findViolation, schemaWarnings } from "../agents/on-demand.ts";
import { type EnvironmentSource, messageOf, type Task, useEnvironment } from "../core/index.ts";
import { formatsWithout } from "../parsers/index.ts";
import { checkedOpening } from "../rollout/index.ts";
import { type EnvironmentFinding, examineEnvironment } from "../testing/index.ts";
import { agendaUser } from "../users/index.ts";
import { agendaGaps } from "./audit-agenda.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";
import { checkSplit, closeRemote, loadEnvironment } from "./load-environment.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions } from "./options.ts";
import { environmentOptionNames, isRemote as runsElsewhere } from "./environments.ts";
import type { SettingName } from "./rollout-settings.ts";
import { namedTools } from "./tool-names.ts";
import { milliseconds, readFlags, section, type SettingValues, whole } from "../parts/setting.ts";

/** The settings of a rollout that choose the environment and bound the time of its steps. */
export const auditEnvironmentSettingNames = [
  ...([...environmentOptionNames, "split", "seed"] as const),
  ...(["openTimeout", "environmentTimeout", "gradingTimeout"] as const),
] as const satisfies readonly SettingName[];

export const auditEnvironmentSettings = section("Environment", {
  taskCount: whole(5, { min: 1, max: 10_000 }).help("tasks to run per split, evenly spaced"),
  callCount: whole(40, { min: 1, max: 10_000 }).help("random calls per task"),
});

/** Options of {@link loadEnvironmentSource}. */
export type EnvironmentSourceOptions = Pick<
  RolloutSettingOptions,
  "env" | Extract<keyof RolloutSettingOptions, (typeof auditEnvironmentSettingNames)[number]>
> &
  Omit<CallOptions, "signal" | "drain">;

/** Options of {@link auditEnvironment}: the flags of the command `doctor environment` in camelCase. */
export type AuditEnvironmentOptions = EnvironmentSourceOptions &
  Partial<SettingValues<typeof auditEnvironmentSettings>> &
  Pick<CallOptions, "signal"> & {
    /** Receives the environment once it is loaded. @default none */
    readonly onEnvironment?: (environment: AuditedEnvironment) => void;
    /** Receives each finding as soon as it is known. @default none */
    readonly onFinding?: (finding: EnvironmentFinding) => void;
  };

export type AuditedEnvironment = {
  readonly name: string;
  readonly users: readonly string[];
  /** Number of tasks in each split. */
  readonly splits: Readonly<Record<string, number>>;
};

export type AuditEnvironmentResult = AuditedEnvironment & { readonly findings: readonly EnvironmentFinding[] };

/** Number of tasks in each split whose agendas are read. */
const readAgendas = 50;
const shownTasks = 3;

/** The public function of this name: `functions.ts`. */
export async function auditEnvironment(options: AuditEnvironmentOptions): Promise<AuditEnvironmentResult> {
  const { taskCount, callCount } = readFlags(auditEnvironmentSettings, options);
  const opened = await load(options);
  try {
    return await auditLoaded(opened, { ...options, taskCount, callCount });
  } finally {
    if (options.env === undefined || typeof options.env === "string") await closeRemote(opened.loaded.source);
  }
}

async function auditLoaded(
  { loaded, isRemote, timeoutMs, openTimeoutMs, split, seed }: Awaited<ReturnType<typeof load>>,
  options: AuditEnvironmentOptions & SettingValues<typeof auditEnvironmentSettings>,
): Promise<AuditEnvironmentResult> {
  const { taskCount, callCount } = options;
  const { source } = loaded;
  const splits = split === null ? source.splits : [checkSplit(source, split)];
  const audited = { name: source.name, users: source.users, splits: sizesOf(source) };
  options.onEnvironment?.(audited);
  const findings: EnvironmentFinding[] = [];
  const onFinding = (finding: EnvironmentFinding): void => {
    findings.push(finding);
    options.onFinding?.(finding);
  };
  const { signal } = options;
  await examineEnvironment(narrowed(source, splits), {
    tasks: taskCount,
    calls: callCount,
    seed,
    timeoutMs,
    openTimeoutMs,
    onFinding,
    ...(signal === undefined ? {} : { signal }),
    // A service receives only calls that the loop would let through; code of this process may
    // receive any call.
    ...(isRemote && source.argumentErrors === "loop"
      ? {
          isAllowed: ({ tools }, call) => {
            const tool = tools.find(({ name }) => name === call.name);
            return tool !== undefined && findViolation(tool, call.arguments) === null;
          },
        }
      : {}),
  });
  if (signal?.aborted !== true) {
    onFinding(await schemaFinding(source));
    onFinding(await nameFinding(source));
    for (const finding of await userFindings(source, splits)) onFinding(finding);
  }
  return { ...audited, findings };
}

/** The public function of this name: `functions.ts`. */
export async function loadEnvironmentSource(options: EnvironmentSourceOptions): Promise<EnvironmentSource> {
  return (await load(options)).loaded.source;
}

async function load(options: EnvironmentSourceOptions): Promise<{
  readonly loaded: LoadedEnvironment;
  readonly isRemote: boolean;
  readonly timeoutMs: number;
  readonly split: string | null;
  readonly seed: number;
  readonly openTimeoutMs: number;
}> {
  const { settings, surroundings } = await readOptions(options);
  const limits = {
    environmentMs: milliseconds(settings.environmentTimeout),
    graderMs: milliseconds(settings.gradingTimeout),
  };
  const loaded = await loadEnvironment(settings.env, {
    settings,
    split: settings.split,
    limits,
    openMs: milliseconds(settings.openTimeout),
    ...surroundings,
  });
  return {
    loaded,
    isRemote: surroundings.parts?.env === undefined && runsElsewhere(settings.env),
    timeoutMs: Math.max(limits.environmentMs, limits.graderMs),
    split: settings.split,
    seed: settings.seed,
    openTimeoutMs: milliseconds(settings.openTimeout),
  };
}

function sizesOf(source: EnvironmentSource): Readonly<Record<string, number>> {
  return Object.fromEntries(source.splits.map((split) => [split, source.taskset(split).size]));
}

/** The source with fewer splits, and with results that are checked as in an episode. */
function narrowed(source: EnvironmentSource, splits: readonly string[]): EnvironmentSource {
  return { ...source, splits, ...checkedOpening(source) };
}

/** A tool with an unreadable schema accepts any arguments. */
async function schemaFinding(source: EnvironmentSource): Promise<EnvironmentFinding> {
  const check = "tool schemas";
  try {
    const warnings = await useEnvironment(checkedOpening(source), firstTask(source), ({ tools, guidelines }) => ({
      texts: schemaWarnings(tools),
      count: tools.length,
      undescribed: tools.filter(({ definition }) => !isDescribed(definition)).map(({ name }) => name),
      guidelines: guidelines.length,
    }));
    const [text] = warnings.texts;
    if (text !== undefined) return { check, result: "fault", text, remedy: "correct the schema of its arguments" };
    if (warnings.undescribed.length > 0) {
      const named = warnings.undescribed.slice(0, 5).join(", ");
      return {
        check,
        result: "warning",
        text: `Without a description: ${named}.`,
        remedy: "describe what the tool does",
      };
    }
    const known = `${warnings.count} tools, all with schemas that are checked; guidelines of ${warnings.guidelines} characters.`;
    return { check, result: "ok", text: known, remedy: null };
  } catch (error) {
    return { check, result: "fault", text: messageOf(error), remedy: "correct open (or setup)" };
  }
}

/**
 * Call formats differ in the tool names that they can write: a call of another tool becomes text
 * for the user.
 */
async function nameFinding(source: EnvironmentSource): Promise<EnvironmentFinding> {
  const check = "tool names";
  try {
    const { tools } = await useEnvironment(checkedOpening(source), firstTask(source), (world) => ({
      tools: world.tools,
    }));
    const formats = new Map<string, string[]>();
    for (const { name } of tools) {
      for (const format of formatsWithout(name)) formats.set(format, [...(formats.get(format) ?? []), name]);
    }
    if (formats.size === 0) return { check, result: "ok", text: "Every call format can write them.", remedy: null };
    const byNames = new Map<string, string[]>();
    for (const [format, names] of formats) {
      const named = namedTools(names);
      byNames.set(named, [...(byNames.get(named) ?? []), format]);
    }
    const text = [...byNames].map(
      ([named, those]) => `${named} cannot be called by models of the formats ${those.join(", ")}.`,
    );
    return {
      check,
      result: "warning",
      text: text.join(" "),
      remedy: 'use letters, digits and "_" in names, a letter first',
    };
  } catch (error) {
    return { check, result: "fault", text: messageOf(error), remedy: "correct open (or setup)" };
  }
}

/** Providers write the function into a field of that name. */
function isDescribed(definition: unknown): boolean {
  if (!(definition instanceof Map)) return false;
  const text: unknown = definition.get("description");
  return (typeof text === "string" && text.trim() !== "") || isDescribed(definition.get("function"));
}

function firstTask(source: EnvironmentSource): Task {
  const split = source.splits.find((one) => source.taskset(one).size > 0) ?? source.splits[0]!;
  return source.taskset(split).task(0);
}

/** Opening lines of simulated users, and the parts of agendas that cannot be reached. */
async function userFindings(source: EnvironmentSource, splits: readonly string[]): Promise<EnvironmentFinding[]> {
  const tasks = splits.flatMap((split) => {
    const taskset = source.taskset(split);
    return Array.from({ length: Math.min(readAgendas, taskset.size) }, (_, index) => taskset.task(index));
  });
  const findings: EnvironmentFinding[] = [];
  for (const task of tasks.slice(0, shownTasks)) {
    const { who, text } = await beginning(source, task);
    findings.push({ check: "user", result: "ok", text: `${task.id}, ${who}: ${text}`, remedy: null });
  }
  const gaps = new Map<string, { readonly first: string; count: number }>();
  for (const task of tasks) {
    for (const gap of await agendaGaps(task)) {
      const known = gaps.get(gap);
      if (known === undefined) gaps.set(gap, { first: task.id, count: 1 });
      else known.count++;
    }
  }
  const shown = [...gaps].slice(0, 5);
  for (const [gap, { first, count }] of shown) {
    const text = `In ${count} of ${tasks.length} tasks, "${first}" first, ${gap}.`;
    findings.push({ check: "agenda", result: "warning", text, remedy: "correct the agenda" });
  }
  const withAgenda = tasks.filter(({ agenda }) => agenda !== null).length;
  if (gaps.size > shown.length) {
    const text = `${gaps.size - shown.length} more gaps like these.`;
    findings.push({ check: "agenda", result: "warning", text, remedy: "correct the agendas" });
  } else if (gaps.size === 0 && withAgenda > 0) {
    const text = `${withAgenda} agendas: every slot is heard when it is asked for, every proposal can be confirmed.`;
    findings.push({ check: "agenda", result: "ok", text, remedy: null });
  }
  return findings;
}

/** The first line of a task that a policy reads. */
async function beginning(
  source: EnvironmentSource,
  task: Task,
): Promise<{ readonly who: string; readonly text: string }> {
  if (task.agenda !== null) {
    const { text } = await agendaUser().create(task, { seed: 1 }).open();
    return { who: 'user "agenda" begins', text: quoted(text) };
  }
  const opening = await useEnvironment(checkedOpening(source), task, (world) => world.opening ?? null).catch(
    () => null,
  );
  if (opening !== null) return { who: "the world begins", text: quoted(opening) };
  return task.instruction === null
    ? { who: "a user", text: "nothing is known of it" }
    : { who: "a model is instructed", text: quoted(task.instruction) };
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
