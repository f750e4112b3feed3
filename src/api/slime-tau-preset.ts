// The loop of the preset "slime-tau" as a runner of episodes: it posts to the server itself, as
// upstream does.

import { toolInstructionEdit } from "../agents/on-demand.ts";
import {
  attribute,
  AttributedError,
  ConfigurationError,
  type Episode,
  type EnvironmentSource,
  type Task,
  useEnvironment,
  type UserSource,
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
import { checkedOpening, type EpisodeRequest, type FinishedEpisode, type RunEpisode } from "../rollout/loop.ts";
import {
  runSlimeTau,
  slimeTauEnvironment,
  type SlimeTauOptions,
  type SlimeTauPayload,
  type SlimeTauResult,
  slimeTauSample,
} from "../rollout/slime-tau/index.ts";
import type { ChosenModel } from "./choose-model.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readNamedFile } from "./surroundings.ts";

export type PresetParts = {
  readonly settings: RolloutSettings;
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly model: ChosenModel;
  /** Address of the engine's server: presets call it themselves. */
  readonly url: string;
  /** Key for the server; never shown. `null` if there is none. */
  readonly apiKey: string | null;
  /** Value of the `Authorization` header, in place of a key. */
  readonly authorization: string | null;
  readonly cwd: string;
};

/** Rejects with a `ConfigurationError` for settings that the preset does not support. */
export async function slimeTauRunner(parts: PresetParts): Promise<RunEpisode> {
  if (parts.settings.calls === "several") {
    throw new ConfigurationError(
      "Cannot carry out several calls per turn (--calls several) with --preset slime-tau: its loop carries out one; remove --calls.",
    );
  }
  const post = postTo(parts);
  const toolInstruction = await readToolInstruction(parts);
  const source = parts.model.chatTemplate;
  const template = typeof source === "string" ? compileChatTemplate(source) : source;
  return (task, place) => runPresetEpisode(parts, { task, place, post, toolInstruction, template });
}

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
          // Placeholders in the loop; the real address is part of `post`.
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

/**
 * Posts as upstream does, without retries. Rejects with an attributed failure for any answer except
 * HTTP 200 with JSON.
 */
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

/**
 * The text of the file up to the last newline, like upstream's constant; our own wording if no file
 * is given.
 */
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

/**
 * The record of such an episode has no trajectory and no events: text-delta accounting has no turns
 * to record.
 */
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
