// One rollout from settings to closing table: what `rollout` and `start` share. Owns the run folder's manifest, the progress
// display and the way out: finished, interrupted or broken, the folder says which and stays readable.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import type { CircuitStatus } from "../../engines/guarded/index.ts";
import { slimeRowLine, toSlimeRow } from "../../export/index.ts";
import { type RunTotals, type RolloutParts, rolloutWarnings, runRollout } from "../../rollout/index.ts";
import { createFileRunStore, type ResumedRun, resumeFileRunStore, runFiles } from "../../store/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import type { ConnectedPolicy } from "../../api/choose-policy.ts";
import { concurrencyOf } from "../../api/choose-groups.ts";
import { type PreparedRollout, prepareRollout } from "../../api/prepare-rollout.ts";
import { checkSameSettings, type RunToResume } from "../../api/run-to-resume.ts";
import { type RunWatch, watchRun } from "../../api/watch-run.ts";
import { createProgressDisplay } from "../display/progress-display.ts";
import { runNotes, runTable } from "../display/run-table.ts";
import { coloursFor, formatCount, printable } from "../display/terminal-text.ts";
import { runManifest } from "../../api/run-manifest.ts";
import { defaultEngineWait } from "../../api/limit-settings.ts";
import { goOnWith } from "../../api/user-code.ts";
import type { RolloutSettings } from "../../api/rollout-settings.ts";

export type PlayedRollout = {
  readonly exitCode: number;
  /** As commands take it: relative to where the user stands. */
  readonly folder: string;
  readonly totals: RunTotals;
  /** Lines that stand under a table of the run. */
  readonly notes: readonly string[];
};

export type PlayOptions = {
  /** Default: the closing table of a rollout is printed. */
  readonly closingTable?: boolean;
  /** The run that goes on; the settings given are its own, with what has changed. Default: a run begins. */
  readonly resume?: RunToResume | null;
  /** What goes on with the run when it is interrupted. Default "rollout". */
  readonly command?: string;
};

/** Plays and keeps a rollout and prints its table. Rejects with what stopped it, after the folder says so too. */
export async function playRollout(
  given: RolloutSettings,
  context: CliContext,
  options: PlayOptions = {},
): Promise<PlayedRollout> {
  const resume = options.resume ?? null;
  const prepared = await prepareRollout(given, context, { goesOn: resume !== null });
  const folder = resume?.folder ?? given.out ?? newFolder(prepared.environment.name, context.cwd);
  const settings = { ...prepared.settings, out: folder };
  if (resume !== null) checkSameSettings(resume, settings);
  const place = resolve(context.cwd, folder);
  const storing = { redact: prepared.redact, fsync: settings.fsync };
  const earlier = resume === null ? null : await resumeFileRunStore(place, storing);
  const store = earlier?.store ?? createFileRunStore(place, storing);
  // Nothing runs yet that could be finished: the first Ctrl-C stops.
  const stop = AbortSignal.any([context.drain, context.cancel]);
  const tell = (note: string): void => void context.stderr.write(`${note}\n`);
  const connected = await prepared.connect(stop, store, { tell }).catch(async (error: unknown) => {
    await earlier?.release();
    throw error;
  });
  try {
    const resumed = resume === null ? 0 : resume.resumed + 1;
    const begun = resume?.begun ?? new Date();
    const describe = { id: resume?.id ?? randomUUID(), settings, prepared, engine: connected, begun, resumed };
    await store.begin(runManifest({ ...describe, ended: null, status: "running", totals: null, error: null }));
    goOnWith(laterCommand(prepared, { context, folder, command: options.command ?? "rollout" }));
    try {
      const totals = await play(prepared, {
        context,
        folder,
        parts: {
          runEpisode: connected.runEpisode,
          store,
          exportSamples: writesSamples(place, prepared) ? exporterFor(prepared) : () => [],
          ...(earlier === null ? {} : { decided: earlier.decided }),
        },
        settings,
        policy: connected,
        earlier,
        later: laterCommand(prepared, { context, folder, command: options.command ?? "rollout" }),
      });
      const wasInterrupted = context.drain.aborted || context.cancel.aborted;
      const status = wasInterrupted ? "interrupted" : "done";
      await store.close(runManifest({ ...describe, ended: new Date(), status, totals, error: null }));
      const notes = noteLines(totals, { context, redact: prepared.redact });
      if (options.closingTable ?? true) {
        const later = wasInterrupted ? laterCommand(prepared, { context, folder, command: "rollout" }) : null;
        showTable(totals, { context, folder, prepared, notes, wasInterrupted, later });
      }
      return { exitCode: exitCodeOf(totals, wasInterrupted), folder, totals, notes };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const last = runManifest({ ...describe, ended: new Date(), status: "failed", totals: null, error: reason });
      // What stopped the run is told; that its folder cannot be closed either adds nothing.
      await store.close(last).catch(() => undefined);
      throw error;
    }
  } finally {
    await connected.close();
  }
}

type Playing = {
  readonly context: CliContext;
  readonly folder: string;
  readonly parts: RolloutParts;
  readonly settings: RolloutSettings;
  readonly policy: ConnectedPolicy;
  /** `null`: the run begins. */
  readonly earlier: ResumedRun | null;
  /** What goes on with the run when it is interrupted; `null`: nothing can. */
  readonly later: string | null;
};

async function play(prepared: PreparedRollout, playing: Playing): Promise<RunTotals> {
  const { context, folder, parts, settings, policy, earlier, later } = playing;
  const { plan, sampling, environment } = prepared;
  // A person at the terminal needs it without a block that repaints itself.
  const display = createProgressDisplay(context, { quiet: settings.quiet || prepared.user.name === "human" });
  const tasks = `${formatCount(plan.taskIndexes.length)} tasks x ${formatCount(plan.groupSize)} samples`;
  if (!settings.quiet) {
    display.note(
      `${environment.name} (${settings.split}): ${tasks}, ${prepared.policyTitle} at ${policy.address}, user ${prepared.user.name}`,
    );
    display.note(`writing to ${folder}`);
    if (earlier !== null) {
      const [ended, underWay] = [formatCount(earlier.ended.size), formatCount(earlier.underWay.size)];
      display.note(`resuming: ${ended} episodes have ended, ${underWay} go on at the turn where they stopped`);
    }
  }
  for (const { file, bytes } of earlier?.torn ?? []) {
    display.note(`Notice: the last line of "${file}" was cut off (${formatCount(bytes)} bytes) and is left out.`);
  }
  // Warnings about learning mean nothing to who cannot be trained.
  const warnings = prepared.model === null ? [] : rolloutWarnings(sampling, plan.groupSize);
  for (const warning of warnings) display.note(`Warning: ${warning}`);
  let running = 0;
  const onDrain = (): void =>
    display.note(
      `Interrupted: ${formatCount(running)} running episodes are finished and kept, and no other begins. ` +
        "Press Ctrl-C again to stop them where they are.",
    );
  const onCancel = (): void =>
    display.note(
      later === null
        ? "Stopping: the running episodes are given up."
        : `Stopping: what was played is in the journal. Go on later with: ${later}`,
    );
  let watch: RunWatch | null = null;
  policy.watchCircuits((change) => {
    const note = circuitNote(change, settings.engineWait ?? defaultEngineWait);
    if (note !== null) display.note(note);
    watch?.circuit(change);
  });
  context.drain.addEventListener("abort", onDrain, { once: true });
  context.cancel.addEventListener("abort", onCancel, { once: true });
  try {
    watch = await watchRun(settings, parts, {
      folder: resolve(context.cwd, folder),
      note: (text) => display.note(text),
      log: (line) => context.stderr.write(`${prepared.redact(line)}\n`),
    });
    const { runEpisode: watchedRun, store, gauges } = watch;
    return await runRollout(
      plan,
      { ...parts, runEpisode: watchedRun, store },
      {
        ...prepared.groups,
        concurrency: concurrencyOf(settings.concurrency, policy.load),
        drain: context.drain,
        signal: context.cancel,
        onProgress: (totals) => {
          const { episodesPlanned, episodesStarted, episodesFinished, concurrency } = totals();
          running = episodesStarted - episodesFinished;
          gauges({
            runningEpisodes: running,
            waitingEpisodes: Math.max(0, episodesPlanned - episodesStarted),
            concurrencyLimit: concurrency,
          });
          display.update(totals);
        },
      },
    );
  } finally {
    context.drain.removeEventListener("abort", onDrain);
    context.cancel.removeEventListener("abort", onCancel);
    await watch?.close();
    display.stop();
  }
}

/** A preset's loop keeps no journal. */
function laterCommand(
  { preset }: PreparedRollout,
  run: { readonly context: CliContext; readonly folder: string; readonly command: string },
): string | null {
  const { context, folder, command } = run;
  return preset === null ? `${context.program} ${command} --resume ${quoted(folder)}` : null;
}

/** What a person has to know of a server that comes and goes; `null`: nothing. */
function circuitNote({ server, state, failures, message }: CircuitStatus, engineWait: number): string | null {
  if (state === "half-open") return null;
  if (state === "closed") return `The server at ${server} is back.`;
  return (
    `The server at ${server} failed ${formatCount(failures)} times in a row and is left alone until it is back; its episodes ` +
    `move to other servers or wait, ${formatCount(engineWait)} seconds at most. ${message ?? ""}`
  );
}

/** Rows of re-encoded text cannot be derived afterwards; a run that has written rows before it was killed writes all. */
function writesSamples(place: string, { settings, preset }: PreparedRollout): boolean {
  return settings.writeSamples || (preset?.allowTextDelta ?? false) || existsSync(join(place, runFiles.samples));
}

function exporterFor({ model, preset }: PreparedRollout): RolloutParts["exportSamples"] {
  const options = {
    // Without a model there are no tokens to decode.
    decode: (tokens: Uint32Array) => model?.renderer.decode(tokens) ?? "",
    allowTextDelta: preset?.allowTextDelta ?? false,
  };
  return ({ episode, result }, { index, groupIndex }) => {
    const origin = { index, groupIndex, episode, sampleCount: result.samples.length };
    return result.samples.map((sample) => slimeRowLine(toSlimeRow(sample, origin, options)));
  };
}

function showTable(
  totals: RunTotals,
  shown: {
    readonly context: CliContext;
    readonly folder: string;
    readonly prepared: PreparedRollout;
    readonly notes: readonly string[];
    readonly wasInterrupted: boolean;
    readonly later: string | null;
  },
): void {
  const { context, folder, prepared, notes, wasInterrupted, later } = shown;
  const { stdout, env, program } = context;
  const colours = coloursFor(stdout, env);
  const title = `${prepared.environment.name} (${prepared.settings.split})${wasInterrupted ? ", interrupted" : ""}`;
  const lines = [
    "",
    colours.bold(title),
    ...runTable(totals, colours),
    ...notes,
    "",
    `  ${colours.dim("files")}  ${folder}/ ${writtenFiles(resolve(context.cwd, folder))}`,
    ...(later === null ? [] : [`  ${colours.dim("go on")}  ${later}`]),
    `  ${colours.dim("next")}   ${program} inspect ${quoted(folder)}`,
    ...(wasInterrupted && prepared.preset === null ? [`         ${program} rollout --resume ${quoted(folder)}`] : []),
    "",
  ];
  stdout.write(`${lines.join("\n")}\n`);
}

/** What stands under a table, after a blank line. */
function noteLines(
  totals: RunTotals,
  { context, redact }: { readonly context: CliContext; readonly redact: (text: string) => string },
): string[] {
  const { yellow } = coloursFor(context.stdout, context.env);
  const notes = runNotes(totals).map((note) => `  ${yellow(printable(redact(note)))}`);
  return notes.length === 0 ? [] : ["", ...notes];
}

function exitCodeOf(totals: RunTotals, wasInterrupted: boolean): number {
  if (wasInterrupted) return exitCodes.interrupted;
  const { failed } = totals.outcomes;
  return failed > 0 && failed === totals.episodesFinished ? exitCodes.failed : exitCodes.done;
}

/** `runs/<time>-<environment>`, with a number when that is taken. */
export function newFolder(environment: string, cwd: string): string {
  const now = new Date();
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const name = relative(
    cwd,
    resolve(cwd, "runs", `${day}-${time}-${environment.replaceAll(/[^A-Za-z0-9._-]+/g, "-")}`),
  );
  for (let number = 1; ; number++) {
    const folder = number === 1 ? name : `${name}-${number}`;
    if (!existsSync(resolve(cwd, folder))) return folder;
  }
}

/** The files of a finished run, for its closing table. */
export function writtenFiles(place: string): string {
  const { manifest, episodes, groups, samples } = runFiles;
  return [manifest, episodes, groups, samples].filter((name) => existsSync(join(place, name))).join(", ");
}

/** As a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
