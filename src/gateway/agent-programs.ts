// Runs episodes with an external program; schedulers run them like any other episodes. Each episode
// opens a session of a gateway in this process, starts the program with its URL and key, and
// collects the reward that the program prints. Groups, filters and the store belong to the
// scheduler.
//
//   session ► program ─┬─ exits 0 with a reward ────► "session_ended", graded (by a used world)
//                      ├─ no reward, or other exit ─► "fault", or the limit that was reached
//                      ├─ its model did not answer ─► "fault" of the engine for any exit
//                      ├─ times out: tree killed ───► "fault"
//                      └─ cancelled: tree killed ───► "cancelled"; if resumed, it starts over

import { createHash, randomBytes } from "node:crypto";
import {
  attribute,
  type Episode,
  type EpisodeEvent,
  faultAt,
  type LineageCredit,
  messageOf,
  outcomeOf,
  type SamplingParams,
  type Task,
} from "../core/index.ts";
import { createRedactor } from "../http/index.ts";
import { systemClock } from "../lib/clock.ts";
import { createSemaphore } from "../lib/limits.ts";
import { endOfText } from "../lib/program-error.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { episodeSamples, type RunEpisode } from "../rollout/index.ts";
import { type AgentRun, runAgentCommand, sessionVariables } from "./agent-command.ts";
import { GatewayHandler } from "./gateway.ts";
import type { AgentPermissions } from "./acp/acp-library.ts";
import { serveSocket } from "./serve-socket.ts";
import { GatewayError } from "./request.ts";
import { ProgramWorlds } from "./program-worlds.ts";
import type { SessionWorlds } from "./session-worlds.ts";
import { makeSession, type ProgramSession, type SessionModel } from "./program-session.ts";
import { type ConstraintSettings, defaultConstraints } from "./session-constraint.ts";
import type { ClientSampling } from "./session-sampling.ts";
import type { ClientTemplate } from "./session-template.ts";
import type { SessionSettings } from "./session-settings.ts";

export type AgentProgramsOptions = {
  /** Command line for the shell. */
  readonly command: string;
  /**
   * Settings of an agent that speaks the Agent Client Protocol; `worlds` must then be given.
   * @default the program reads its task from its environment, and prints its reward
   */
  readonly acp?: {
    readonly permissions: AgentPermissions;
    /** Version of this package, as agents see it. */
    readonly version: string;
  } | null;
  readonly cwd: string;
  /** Environment variables of this process; programs receive only those that locate things. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Time limit of one run, in milliseconds; then its process group is killed. */
  readonly timeoutMs: number;
  /** Builds the description of a task that a program receives. */
  readonly taskLine: (task: Task) => string;
  /**
   * Worlds whose tools programs may call, and which grade them.
   * @default none: programs bring their own
   */
  readonly worlds?: SessionWorlds | null;
  /** Name of the model that `/v1/models` lists. @default "policy" */
  readonly modelName?: string;
  /** Maximum number of concurrent programs; further episodes wait. @default 64 */
  readonly maxPrograms?: number;
  /**
   * Maximum size of each output stream of a program, in bytes; the excess is dropped.
   * @default 1,000,000
   */
  readonly maxOutputBytes?: number;
  /** Removes secrets from errors. @default nothing is removed */
  readonly redact?: (text: string) => string;
};

export type AgentEpisodeOptions = {
  readonly sampling: SamplingParams;
  /** Same as the option of a gateway. @default "ignore" */
  readonly clientSampling?: ClientSampling;
  /** @default "ignore" */
  readonly clientTemplate?: ClientTemplate;
  /** @default constraints are obeyed, and constrained tokens are not trained */
  readonly constraints?: ConstraintSettings;
  /** Same as the option of a gateway. @default "all" */
  readonly credit?: LineageCredit;
  readonly episode: Omit<SessionSettings["episode"], "requestTag">;
};

export interface AgentPrograms {
  /** URL at which programs reach the policy; it serves only sessions of running episodes. */
  readonly url: string;
  /** Creates a function that runs an episode with the program. */
  runner(answers: SessionModel, options: AgentEpisodeOptions): RunEpisode;
  /** Stops serving requests. Call it after all episodes have ended. */
  close(): Promise<void>;
}

const maxBodyBytes = 32 * 2 ** 20;
/** Maximum number of characters of each output that an episode keeps, counted from its end. */
const longestOutput = 4000;

/** Opens a gateway on a free port of this machine, for programs that run here. */
export async function openAgentPrograms(options: AgentProgramsOptions): Promise<AgentPrograms> {
  const { modelName = "policy", worlds = null, acp = null, redact = (text) => text } = options;
  const sessions = new Map<string, ProgramSession>();
  const opened = new ProgramWorlds(worlds);
  const ofKey = (key: string): ProgramSession => {
    const session = sessions.get(hashOf(key));
    if (session !== undefined) return session;
    throw new GatewayError("unauthorized", "Cannot serve the request: no running episode has this key.");
  };
  const handler = new GatewayHandler(
    {
      get open() {
        return [...sessions.values()];
      },
      find: async (key) => ofKey(key),
      counter: (key) => ofKey(key),
      hasKey: (key) => sessions.has(hashOf(key)),
      world: (key, request) => opened.handle(ofKey(key), request),
    },
    {
      token: null,
      modelName,
      redact,
      maxBodyBytes,
      keepAliveMs: 10_000,
      rowsOf: () => [],
      admin: null,
      // Episodes wait for the disk themselves, and end with their run.
      disk: null,
      isDraining: () => false,
    },
  );
  const address = { host: "127.0.0.1", port: 0, hasToken: false, maxBodyBytes };
  const listener = await serveSocket(handler, address);
  const permits = createSemaphore(options.maxPrograms ?? 64);
  const runProgram = async (session: ProgramSession, key: string, signal: AbortSignal): Promise<AgentRun> => {
    const release = await permits.acquire(signal);
    const { command, cwd, timeoutMs, variables, maxOutputBytes = 1_000_000 } = options;
    const line = options.taskLine(session.settings.task);
    const hideKey = createRedactor([key], "[key]");
    const shown = (text: string): string => redact(hideKey(text)).slice(-longestOutput);
    sessions.set(hashOf(key), session);
    try {
      const env = sessionVariables(variables, {
        url: listener.url,
        key,
        hasWorld: worlds !== null,
        line,
        seed: session.settings.seed,
      });
      const started = { command, cwd, env, timeoutMs, maxOutputBytes, signal };
      const run =
        acp === null
          ? await runAgentCommand(started)
          : await (
              await import("./acp/acp-agent.ts")
            ).runAcpAgent({
              ...started,
              ...acp,
              toolsUrl: `${listener.url}/s/${key}/mcp`,
              maxPrompts: session.settings.episode.limits?.maxTurns ?? Infinity,
              converse: (onEnd) => opened.converse(session, onEnd),
              limit: () => session.limit,
            });
      // Errors of model clients may quote the key that was wrong.
      const problem = run.problem === null ? null : { ...run.problem, state: shown(run.problem.state) };
      return { ...run, stdout: shown(run.stdout), stderr: shown(run.stderr), problem };
    } finally {
      sessions.delete(hashOf(key));
      release();
    }
  };
  return {
    url: listener.url,
    close: () => listener.close(),
    runner:
      (
        answers,
        {
          sampling,
          clientSampling = "ignore",
          clientTemplate = "ignore",
          constraints = defaultConstraints,
          credit = "all",
          episode,
        },
      ) =>
      async (task, request) => {
        const { episodeId: id, groupId, sampleIndex, seed, signal, onEvent, resumeFrom = [] } = request;
        const session = makeSession(
          {
            id,
            groupId,
            sampleIndex,
            task,
            seed,
            clientSampling,
            clientTemplate,
            constraints,
            credit,
            maxCalls: 64,
            unknownTools: "loop",
            sampling: request.sampling ?? sampling,
            episode: { ...episode, requestTag: request.requestTag ?? "" },
          },
          answers,
          { clock: systemClock, record: async (event) => onEvent(event) },
        );
        const key = `ta-${randomBytes(24).toString("base64url")}`;
        const facts = fromPlain({
          key_sha256: hashOf(key),
          group: groupId,
          sample_index: sampleIndex,
          task_line: redact(options.taskLine(task)),
        }) as JsonObject;
        await beginSession(session, facts, resumeFrom);
        const program = () => runProgram(session, key, signal);
        const ended = await played(session, program, { signal, timeoutMs: options.timeoutMs, worlds: opened });
        return { episode: ended, result: episodeSamples(ended), origin: "new" };
      },
  };
}

/**
 * After its process died, a program cannot continue where it was: it is started again, and the
 * tokens of the first run are dropped.
 */
async function beginSession(
  session: ProgramSession,
  facts: JsonObject,
  recorded: readonly EpisodeEvent[],
): Promise<void> {
  if (!recorded.some(({ type }) => type === "session")) return session.open(facts);
  session.restore(recorded.filter((event) => event.type !== "episode-end"));
  await session.reopen(facts);
}

/** Runs the program of a session, and ends the session with the program's result. */
async function played(
  session: ProgramSession,
  run: () => Promise<AgentRun>,
  options: { readonly signal: AbortSignal; readonly timeoutMs: number; readonly worlds: ProgramWorlds },
): Promise<Episode> {
  try {
    return await playedIn(session, run, options);
  } finally {
    await options.worlds.close(session);
  }
}

async function playedIn(
  session: ProgramSession,
  run: () => Promise<AgentRun>,
  { signal, timeoutMs, worlds }: Parameters<typeof played>[2],
): Promise<Episode> {
  const { id } = session.settings;
  const startedAt = systemClock.now();
  let finished: AgentRun;
  try {
    finished = await run();
  } catch (error) {
    if (signal.aborted) return session.end("cancelled");
    const message = `Cannot run the program of episode "${id}": it could not be started: ${messageOf(error)}`;
    return session.end("fault", faultAt("gateway", "program-not-started", message, { cause: error }).failure);
  }
  if (signal.aborted) return session.end("cancelled");
  const { exitCode, isTimedOut, reward, stdout, stderr, problem, failure, stopReason, isPrompted } = finished;
  const durationMs = Math.max(0, systemClock.now() - startedAt - session.modelMs);
  await session.add({
    type: "program",
    exitCode,
    isTimedOut,
    reward,
    stdout,
    stderr,
    durationMs,
    ...(isPrompted ? { isPrompted } : {}),
  });
  // The reward of a program that did not get an answer says nothing about the model.
  const fault = session.fault ?? failure;
  if (fault !== null) return session.end("fault", fault);
  const isDone = problem === null && !isTimedOut;
  const outcome = stopReason === null ? "completed" : outcomeOf(stopReason);
  if (isDone && worlds.grades(session, reward)) {
    try {
      await session.grade(await worlds.grade(session, outcome === "truncated" ? outcome : "completed"));
    } catch (error) {
      return session.end("fault", attribute(error, "grader").failure);
    }
    return session.end(stopReason ?? session.limit ?? "session_ended");
  }
  if (isDone && reward !== null) {
    await session.grade({ reward, metrics: {}, log: "", info: new Map() });
    return session.end(session.limit ?? "session_ended");
  }
  // A program that stops because it reached a limit has not failed.
  if (session.limit !== null) return session.end(session.limit);
  const late = `it was killed after ${timeoutMs / 1000} s; raise --agent-timeout, or find out why it takes so long`;
  const { code, state } = isTimedOut
    ? { code: "timeout", state: late }
    : (problem ?? { code: "no-reward", state: 'it printed no reward; print {"reward": 1} as its last line' });
  const said = stderr.trim() === "" ? "" : `\nThe end of its standard error:\n${endOfText(stderr)}`;
  const message = `Cannot finish episode "${id}" with its program: ${state.replace(/\.$/, "")}.${said}`;
  const error = faultAt("gateway", code, message);
  return session.end("fault", attribute(error, "gateway").failure);
}

function hashOf(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}
