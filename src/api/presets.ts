// Presets by name. A preset changes defaults, and may replace the loop of an episode; tasks, run folder, progress and exporters
// stay those of every rollout. "slime-tau" runs every episode by the loop this project grew out of, for comparison; its samples
// are marked "text-delta".

import { toolInstructionEdit } from "../agents/index.ts";
import {
  attribute,
  AttributedError,
  ConfigurationError,
  type Episode,
  type Task,
  type EnvironmentSource,
  type UserSource,
  useEnvironment,
} from "../core/index.ts";
import { createHttpPool, parseBaseUrl } from "../http/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { loadToolCallParser } from "../parsers/on-demand.ts";
import {
  bundledChatTemplate,
  bundledToolSentence,
  type ChatTemplate,
  compileChatTemplate,
  segmentsText,
} from "../renderers/on-demand.ts";
import { checkedOpening, type EpisodeRequest, type FinishedEpisode, type RunEpisode } from "../rollout/index.ts";
import {
  runSlimeTau,
  slimeTauEnvironment,
  type SlimeTauOptions,
  type SlimeTauPayload,
  type SlimeTauResult,
  slimeTauSample,
} from "../rollout/slime-tau/index.ts";
import type { ChosenModel } from "./choose-model.ts";
import type { FlagValues } from "./resolve-settings.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readNamedFile } from "./surroundings.ts";
import { meant } from "../lib/nearest.ts";

export type Preset = {
  /** Below flags and configuration file, above the general defaults. */
  readonly defaults: FlagValues;
  /** Its samples are re-encoded text, and may be exported all the same. */
  readonly allowTextDelta: boolean;
  /** Rejects with a `ConfigurationError` for settings that do not fit. */
  createRunner(this: void, parts: PresetParts): Promise<RunEpisode>;
};

type PresetParts = {
  readonly settings: RolloutSettings;
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly model: ChosenModel;
  /** Where the engine's server is: presets talk to it themselves. */
  readonly url: string;
  /** For the server; never shown. `null`: none. */
  readonly apiKey: string | null;
  /** In place of a key. */
  readonly authorization: string | null;
  readonly cwd: string;
};

export const slimeTauPreset: Preset = {
  defaults: { temperature: 0, topP: 0.9, topK: 50, maxNewTokens: 512 },
  allowTextDelta: true,
  createRunner: async (parts) => {
    if (parts.settings.calls === "several") {
      throw new ConfigurationError(
        "Cannot carry out several calls a turn (--calls several) with --preset slime-tau: its loop carries out one; leave --calls out.",
      );
    }
    const post = postTo(parts);
    const toolInstruction = await readToolInstruction(parts);
    const source = parts.model.chatTemplate;
    const template = typeof source === "string" ? compileChatTemplate(source) : source;
    return (task, place) => runPresetEpisode(parts, { task, place, post, toolInstruction, template });
  },
};

type Post = (payload: SlimeTauPayload, signal: AbortSignal) => Promise<unknown>;

type Call = {
  readonly task: Task;
  readonly place: EpisodeRequest;
  readonly post: Post;
  readonly toolInstruction: SlimeTauOptions["toolInstruction"];
  readonly template: ChatTemplate;
};

async function runPresetEpisode(parts: PresetParts, call: Call): Promise<FinishedEpisode> {
  const { task, place, post, toolInstruction, template } = call;
  const { settings, model } = parts;
  const user = parts.user.create(task, { seed: deriveSeed(place.seed, "user") });
  const parser = await loadToolCallParser("qwen25");
  const context = { specialTokens: new Map(model.specialTokens), now: null };
  try {
    const result = await useEnvironment(checkedOpening(parts.environment), task, (environment) =>
      runSlimeTau(
        {
          renderText: (input) => segmentsText(template({ ...input, kwargs: new Map(), context })),
          tokenizer: model.tokenizer,
          post: (_, payload) => post(payload, place.signal),
          parse: (text) => parser.parse(text, { tools: environment.tools }),
          environment: slimeTauEnvironment(environment, user),
          tools: environment.tools.map(({ definition }) => definition),
          wiki: environment.guidelines,
        },
        {
          // The address is part of `post`; these stand for it in the loop.
          rolloutArgs: { sglangRouterIp: "router", sglangRouterPort: 80 },
          samplingParams: {
            temperature: settings.temperature,
            max_new_tokens: settings.maxNewTokens,
            top_p: settings.topP,
            top_k: settings.topK,
            ...settings.samplingExtra,
          },
          maxSteps: settings.maxTurns,
          toolInstruction,
        },
      ),
    );
    return finished({ task, place }, result);
  } catch (error) {
    const ending = place.signal.aborted
      ? ({ outcome: "aborted", stopReason: "cancelled", failure: null } as const)
      : ({ outcome: "failed", stopReason: "fault", failure: attribute(error, "engine").failure } as const);
    const episode = { ...emptyEpisode({ task, place }), ...ending };
    return { episode, result: { samples: [], dropped: [] }, origin: "new" };
  }
}

/** Posts as upstream does, without retries. Rejects with an attributed failure for anything but HTTP 200 with JSON. */
function postTo({ url, apiKey, authorization }: PresetParts): Post {
  const base = parseBaseUrl(url, { what: "SGLang server", authorization, setting: "--engine-authorization-env" });
  const address = base.origin + base.path;
  const http = createHttpPool({ boundary: "engine" });
  const headers = {
    "content-type": "application/json",
    ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  return async (payload, signal) => {
    const body = JSON.stringify(payload);
    const reply = await http.request({ base, method: "POST", path: "/generate", headers, body }, { signal });
    if (reply.status !== 200) {
      const message = `Cannot post to the SGLang server at ${address}: it answered HTTP ${reply.status}.`;
      throw new AttributedError({ boundary: "engine", code: "server-error", message, retryable: false, cause: null });
    }
    return JSON.parse(reply.body.toString("utf8")) as unknown;
  };
}

/** The file's text to the last newline, as upstream's constant; our own wording without a file. */
async function readToolInstruction({ settings, model, cwd }: PresetParts): Promise<SlimeTauOptions["toolInstruction"]> {
  const sentence = model.chatTemplate === bundledChatTemplate ? bundledToolSentence : undefined;
  const { replace, with: own } = toolInstructionEdit(undefined, sentence);
  const { toolInstruction: file } = settings;
  if (file === null) return { replaces: replace, instruction: own };
  if (file === "none") return { replaces: replace, instruction: replace };
  return { replaces: replace, instruction: await readNamedFile(file, cwd, "correct --tool-instruction.") };
}

type Placed = { readonly task: Task; readonly place: EpisodeRequest };

function finished({ task, place }: Placed, result: SlimeTauResult): FinishedEpisode {
  const { status, messages, reward, info } = result;
  const stopReasons = { completed: "user_hung_up", truncated: "max_turns", aborted: "bad_action_aborted" } as const;
  const isEndedByTool = status === "completed" && messages.at(-1)?.role === "tool";
  const episode: Episode = {
    ...emptyEpisode({ task, place }),
    outcome: status,
    stopReason: isEndedByTool ? "tool_ended" : stopReasons[status],
    reward: status === "aborted" ? null : reward,
    info,
    messages: messages.map((message) => {
      if (message.role === "tool") return { ...message, callId: null };
      return message.role === "assistant"
        ? { role: "assistant", content: message.content, reasoning: null, toolCalls: [] }
        : { role: message.role, content: message.content };
    }),
  };
  const origin = { episodeId: place.episodeId, groupId: place.groupId, taskId: task.id };
  const samples = status === "aborted" ? [] : [slimeTauSample(result, origin)];
  return { episode, result: { samples, dropped: [] }, origin: "new" };
}

/** It keeps no trajectory and no events: text-delta accounting has no turns to record. */
function emptyEpisode({ task, place }: Placed): Omit<Episode, "outcome" | "stopReason"> {
  const { episodeId: id, groupId, sampleIndex, seed } = place;
  return {
    id,
    groupId,
    sampleIndex,
    task,
    seed,
    historyPolicy: "append-only",
    failure: null,
    reward: null,
    grade: null,
    info: new Map(),
    messages: [],
    trajectory: { turns: [] },
    events: [],
    problems: [],
  };
}

const loops: Readonly<Record<string, Preset>> = { "slime-tau": slimeTauPreset };

/** Presets whose episodes run by the usual loop: settings under one name. */
const recipes: Readonly<Record<string, FlagValues>> = {
  // How upstream's published results were made: its run.py's defaults and the user model of its leaderboard.
  "tau-bench": { temperature: 0, maxTurns: 30, user: "llm", userModel: "openai/gpt-4o", userCompat: "upstream" },
};

/** The loop and defaults of a preset; `null` where episodes run by the usual one. Throws as {@link presetDefaults}. */
export function findPreset(name: string | null): Preset | null {
  presetDefaults(name);
  return name !== null && Object.hasOwn(loops, name) ? loops[name]! : null;
}

/** What a preset puts in place of the general defaults. Throws a `ConfigurationError` for a name that is none. */
export function presetDefaults(name: string | null): FlagValues {
  if (name === null) return {};
  if (Object.hasOwn(loops, name)) return loops[name]!.defaults;
  if (Object.hasOwn(recipes, name)) return recipes[name]!;
  const known = [...Object.keys(loops), ...Object.keys(recipes)];
  throw new ConfigurationError(
    `Cannot use preset "${name}": there is none of that name; use one of ${known.join(", ")}, or leave --preset out.${meant(name, known)}`,
  );
}
