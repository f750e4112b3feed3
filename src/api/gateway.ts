// gateway(): serves the policy to outside agent programs, and records their sessions in a run
// folder. Restarted in its folder, it continues the sessions that an earlier process left open.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ApiModel } from "../chat-models/index.ts";
import { ConfigurationError, type Engine, type Episode, type Renderer } from "../core/index.ts";
import { type ExportContext, exportFormats, exportGroup } from "../export/index.ts";
import { createGateway, type Gateway, GatewayError, type GatewayOptions as LibraryOptions } from "../gateway/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import { runFiles } from "../store/index.ts";
import { type ChosenModel, templateKwargsOf } from "./choose-model.ts";
import { expertNotice, samplingOf } from "./choose-policy.ts";
import { shownTools } from "./export-run.ts";
import {
  type CallOptions,
  programDefaults,
  readOptions,
  type RolloutSettingOptions,
  type SettingSources,
} from "./options.ts";
import { type PreparedRollout, prepareRollout } from "./prepare-rollout.ts";
import { engineOptionNames } from "./engines.ts";
import { readHostedEnvironment } from "./env-server.ts";
import { openWorlds, worldSettingNames } from "./gateway-worlds.ts";
import type { RolloutSettings, SettingName } from "./rollout-settings.ts";
import { type CloseOptions, closeWithGrace } from "./grace.ts";
import { openRun } from "./open-run.ts";
import { checkSameSettings, readRunToResume, type RunToResume } from "./run-to-resume.ts";
import { readKey } from "./secrets.ts";
import type { ToolNames } from "./tool-names.ts";
import { exporterFor } from "./rollout.ts";
import { listenSettings, readListen, withoutListen } from "./listen.ts";
import {
  milliseconds,
  choice,
  number,
  readFlags,
  seconds,
  section,
  type SettingValues,
  variable,
  whole,
} from "../parts/setting.ts";
import { remedyFor } from "../lib/nearest.ts";

/**
 * The settings of a rollout that a gateway has: the model that answers and its sampling; agent,
 * user and tasks belong to the program.
 */
export const gatewaySettingNames = [
  ...(["engine", ...engineOptionNames, "model", "renderer", "history"] as const),
  ...(["agentModel", "agentUrl", "agentApiKeyEnv", "prices", "modelRequestsPerMinute"] as const),
  ...([
    "thinking",
    "templateKwargs",
    "toolParser",
    "reasoningParser",
    "parserMode",
    "controlTokens",
    "repair",
    "toolInstruction",
  ] as const),
  ...([
    "temperature",
    "topP",
    "topK",
    "minP",
    "repetitionPenalty",
    "maxNewTokens",
    "samplingExtra",
    "seedTurns",
    "clientConstraints",
    "constrained",
    "lineageCredit",
  ] as const),
  ...(["maxTurns", "maxSampledTokens", "maxContextTokens", "turnTimeout"] as const),
  ...(["onEngineAbort", "maxPause", "concurrency", "groupSize", "seed", "filter", "minGroup"] as const),
  ...(["out", "fsync", "writeSamples"] as const),
] as const satisfies readonly SettingName[];

export const gatewaySettings = {
  ...listenSettings("The gateway", 8900, "address to listen on for requests"),
  ...section("The gateway", {
    tokenEnv: variable.help(
      "environment variable with the token for opening, rewarding and ending sessions; required beyond this machine",
    ),
    clientSampling: choice("<what>", "ignore", "obey", "refuse").help(
      "how to treat sampling parameters that programs set; training rows must be the policy's own",
    ),
    clientTemplate: choice("<what>", "ignore", "obey", "refuse").help(
      "how to treat template variables that programs set (chat_template_kwargs, reasoning_effort): only count them, pass them to the template, or refuse",
    ),
    sessionIdle: seconds(3600).help("end a session after this long without a call"),
    maxSessions: whole(4096, { max: 1_000_000 }).help("maximum number of open sessions; more are refused with 429"),
    grace: number("<seconds>", 30, { min: 0, max: 2_000_000 }).help(
      "how long answers in flight may take to finish after SIGTERM or Ctrl-C; new requests get 503 meanwhile",
    ),
  }),
};

/**
 * Options of {@link gateway}: the flags of the command `gateway` in camelCase.
 *
 * @example
 * { engine: "sglang", url: "http://127.0.0.1:30000", model: "./Qwen3-4B-Instruct-2507", out: "runs/gateway" }
 */
export type GatewayOptions = Pick<
  RolloutSettingOptions,
  Exclude<
    Extract<keyof RolloutSettingOptions, (typeof gatewaySettingNames)[number] | (typeof worldSettingNames)[number]>,
    "host" | "port"
  >
> &
  Partial<SettingValues<typeof gatewaySettings>> &
  Pick<SettingSources, "config"> &
  Omit<CallOptions, "drain"> & {
    /** Receives notices for people, synchronously. @default none */
    readonly onNotice?: (message: string) => void;
  };

/** A gateway that accepts requests. */
export type RunningGateway = Pick<Gateway, "sessions" | "fetch" | "open" | "reward" | "end"> & {
  /** Programs add `/v1`, or `/s/<key>/v1`. */
  readonly url: string;
  /** The run folder, as it was given. */
  readonly folder: string;
  /** The model that answers, as in "engine embedded" or "agent model "gpt-4o"". */
  readonly policy: string;
  /** Sessions of an earlier process; `null` if the folder is new. */
  readonly earlier: { readonly ended: number; readonly inFlight: number } | null;
  /**
   * Accepts no further requests. With `wait` (default), answers in flight are sent, for at most
   * `grace` seconds. Open sessions stay in the folder, and the next start continues them.
   */
  close(options?: CloseOptions): Promise<void>;
};

/** The public function of this name: `functions.ts`. */
export async function gateway(options: GatewayOptions): Promise<RunningGateway> {
  const { cwd = process.cwd(), variables = process.env, signal, onNotice = () => undefined, out } = options;
  const own = readFlags(gatewaySettings, options);
  const address = readListen(gatewaySettings, options);
  const token = readKey(variables, own.tokenEnv, "--token-env");
  if (typeof out !== "string" || out === "") {
    throw new ConfigurationError("Cannot open a gateway: no folder for its sessions is named; pass --out <folder>.");
  }
  const folder = resolve(cwd, out);
  const resume = existsSync(join(folder, runFiles.manifest)) ? await readRunToResume(out, cwd) : null;
  const { ofWorlds, ofPolicy } = splitOptions(options);
  const { settings: given, surroundings } = await readOptions(withoutListen(ofPolicy), programDefaults, resume);
  const opened = new Opened();
  try {
    const prepared = await prepareRollout(given, surroundings, { resumes: resume !== null, groups: "outside" });
    opened.add(() => prepared.close());
    if (prepared.model === null && options.clientSampling !== undefined) {
      throw new ConfigurationError(
        "Cannot use --client-sampling without a policy: sampling parameters of programs are forwarded to an API model; remove it.",
      );
    }
    const notice = (message: string): void => onNotice(prepared.redact(message));
    const parts = { own, folder, out, resume, ofWorlds, token, opened, onNotice: notice };
    return await openGateway(prepared, { ...parts, address, cancel: signal ?? new AbortController().signal });
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

type GatewayToOpen = {
  readonly own: SettingValues<typeof gatewaySettings>;
  /** Absolute path; `out` is the path as given. */
  readonly folder: string;
  readonly out: string;
  readonly resume: RunToResume | null;
  readonly ofWorlds: ReturnType<typeof splitOptions>["ofWorlds"];
  readonly token: string | null;
  readonly address: ReturnType<typeof readListen>;
  readonly cancel: AbortSignal;
  readonly onNotice: (message: string) => void;
  /** Receives the resources that the gateway opens. */
  readonly opened: Opened;
};

async function openGateway(
  prepared: PreparedRollout,
  { own, folder, out, resume, ofWorlds, token, address, cancel, onNotice, opened }: GatewayToOpen,
): Promise<RunningGateway> {
  const { model, apiModel, redact } = prepared;
  const settings: RolloutSettings = { ...prepared.settings, out: folder };
  if (resume !== null) checkSameSettings(resume, settings, gatewaySettingNames);
  const run = await openRun({
    place: folder,
    resume,
    settings,
    prepared,
    names: gatewaySettingNames,
    environment: "gateway",
    patience: { waitMs: Infinity, waitsForAll: true },
    onNotice,
  });
  const { store, earlier } = run;
  const connected = await prepared.connect(cancel, store, { onNotice }).catch(run.release);
  opened.add(() => connected.close());
  if (settings.engine === "expert") onNotice(expertNotice);
  await run.begin(connected);
  opened.add(() => run.close({ status: "interrupted" }));
  const exportSamples = settings.writeSamples ? exporterFor(prepared) : () => [];
  const names = model === null ? null : await toolNames(model, onNotice);
  const bounds = {
    maxSessions: own.maxSessions,
    idleMs: milliseconds(own.sessionIdle),
    ...(names === null ? {} : { onTools: names.examine.bind(names) }),
  };
  const worlds = ofWorlds === null ? null : openWorlds(await readHostedEnvironment(ofWorlds, opened), bounds);
  if (worlds !== null) opened.add(() => worlds.closeAll());
  const made = createGateway(
    {
      ...answeringParts(connected.engine, names?.watched() ?? null, apiModel),
      store,
      exportSamples,
      rowsOf: rowsIn(prepared),
      ...(worlds === null ? {} : { worlds }),
    },
    {
      seed: settings.seed,
      groupSize: settings.groupSize,
      token,
      redact,
      sampling: samplingOf(settings),
      clientSampling: own.clientSampling,
      clientTemplate: own.clientTemplate,
      clientConstraints: settings.clientConstraints,
      constrained: settings.constrained,
      credit: settings.lineageCredit,
      idleMs: milliseconds(own.sessionIdle),
      maxSessions: own.maxSessions,
      groups: prepared.groups.groups,
      modelName: settings.agentModel ?? settings.model ?? settings.engine ?? "policy",
      episode: episodeOf(settings),
      onFault: (error) =>
        onNotice(`A session was not ended: ${error instanceof Error ? error.message : String(error)}`),
    },
  );
  opened.add(async () => made.close());
  if (earlier !== null) await made.restore(earlier);
  const listener = await made.listen(address);
  opened.add(() => listener.close());
  return {
    get sessions() {
      return made.sessions;
    },
    url: listener.url,
    folder: out,
    policy: prepared.policyTitle,
    close: closeWithGrace(own.grace, {
      finish: (ended) => listener.drain(ended),
      end: () => {
        // Later writes are not worth waiting for.
        store.disk.giveUp();
        return opened.close();
      },
    }),
    fetch: made.fetch,
    open: (session) => made.open(session),
    reward: (id, grade) => made.reward(id, grade),
    end: (id, stopReason) => made.end(id, stopReason),
    earlier: run.counts,
  };
}

/** Reports tools of programs that the call format cannot write. */
async function toolNames(model: ChosenModel, onNotice: (message: string) => void): Promise<ToolNames> {
  return new (await import("./tool-names.ts")).ToolNames(model, { known: new Set(), onNotice });
}

function answeringParts(
  engine: Engine | null,
  renderer: Renderer | null,
  apiModel: ApiModel | null,
): { readonly engine: Engine; readonly renderer: Renderer } | { readonly apiModel: ApiModel | null } {
  return engine === null || renderer === null ? { apiModel } : { engine, renderer };
}

/** The environment of sessions is not a setting of the run: it is named at each start. */
function splitOptions(options: GatewayOptions) {
  const isOfWorlds = (name: string): boolean => worldSettingNames.some((one) => one === name);
  const entries = Object.entries(options);
  const { cwd, variables } = options;
  const given = Object.fromEntries(entries.filter(([name]) => isOfWorlds(name)));
  const ofPolicy = Object.fromEntries(entries.filter(([name]) => !isOfWorlds(name))) as GatewayOptions;
  if (options.env === undefined && Object.values(given).some((value) => value !== undefined)) {
    throw new ConfigurationError("Cannot choose data or a user for sessions without an environment; pass --env.");
  }
  const places = { ...(cwd === undefined ? {} : { cwd }), ...(variables === undefined ? {} : { variables }) };
  return { ofPolicy, ofWorlds: options.env === undefined ? null : { ...given, ...places } };
}

function episodeOf(settings: RolloutSettings): NonNullable<LibraryOptions["episode"]> {
  const { maxTurns, maxSampledTokens, maxContextTokens, onEngineAbort: onAbort, maxPause, turnTimeout } = settings;
  return {
    seedTurns: settings.seedTurns,
    limits: { maxTurns, maxSampledTokens, maxContextTokens },
    turnTimeoutMs: milliseconds(turnTimeout),
    engineAbort: { onAbort, maxPauseMs: milliseconds(maxPause) },
  };
}

function rowsIn({ model }: PreparedRollout): (episode: Episode, format: string | null) => readonly unknown[] {
  const decode = (tokens: Uint32Array): string => model?.renderer.decode(tokens) ?? "";
  return (episode, name) => {
    const format = Object.entries(exportFormats).find(([one]) => one === (name ?? "slime"))?.[1];
    if (format === undefined) {
      const remedy = remedyFor(name ?? "", Object.keys(exportFormats));
      throw new GatewayError("invalid-request", `Cannot export in format "${name}": ${remedy}`, { param: "format" });
    }
    const one = { episode, result: episodeSamples(episode), index: 0 };
    const group = { run: null, groupIndex: 0, decision: "kept", reason: null, episodes: [one] } as const;
    const toolsOf: ExportContext["toolsOf"] = (origin) => shownTools(origin.episode);
    try {
      const kwargs = templateKwargsOf(model?.renderer);
      return exportGroup(group, format, { decode, toolsOf, templateKwargsOf: () => kwargs, where: () => true }).rows;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      throw new GatewayError("invalid-request", error.message, { param: "format", cause: error });
    }
  };
}
