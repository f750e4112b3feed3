// Runs one record of the seed's goldens: the scripted server, the scripted customer and everything
// that they observed.

import type { Tokenizer } from "#src/core/index.ts";
import { loadTauBench, TauEpisode, type TauUser } from "#src/environments/tau-bench/index.ts";
import {
  runSlimeTau,
  type SlimeTauEnvironment,
  type SlimeTauOptions,
  type SlimeTauParsed,
  type SlimeTauResult,
} from "#src/rollout/slime-tau/index.ts";
import { fromPlain, JsonFloat, type JsonObject, type JsonValue, toPlain } from "#src/python-semantics/json/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import { createRandom } from "#src/lib/random.ts";
import { toolCallParser } from "#src/parsers/index.ts";
import { compileChatTemplate, segmentsText } from "#src/renderers/index.ts";
import { describeDifference, textOf } from "./golden-file.ts";

/** Data that all records of one set share. */
export type SeedSet = {
  readonly chatTemplate: string;
  readonly tokenizer: Tokenizer;
  /** The rendered text and ids with which every prompt begins. */
  readonly prefix: { readonly text: string; readonly ids: readonly number[] };
  readonly toolInstruction: { readonly replaces: string; readonly instruction: string };
  readonly tauBench: string;
};

/** Outcome of running one record. */
export type SeedPlay = {
  readonly posted: readonly {
    readonly url: string;
    readonly text: string;
    readonly sampling: JsonValue;
    /** True if the sampling parameters are those of the script. */
    readonly hasScriptSampling: boolean;
  }[];
  /** One per reply that reached the parser, in the format of the records. */
  readonly turns: JsonValue[];
  readonly userHeard: readonly JsonValue[];
  readonly repliesLeft: number;
  readonly userLinesLeft: number;
  /** The result, or the error that escaped the loop. */
  readonly result: SlimeTauResult | Error;
};

export async function playSeedRecord(record: JsonObject, set: SeedSet): Promise<SeedPlay> {
  const data = await loadTauBench({ domain: "retail", folder: set.tauBench });
  const replies = listOf(record, "replies");
  const user = scriptedCustomer(record);
  const seen = { posted: [] as SeedPlay["posted"][number][], turns: [] as JsonObject[] };
  const scriptSampling = fromPlain(toPlain(record.get("sampling_params") ?? null));

  const tools = data.tools.map(({ definition }) => definition);
  const template = compileChatTemplate(set.chatTemplate);
  const parser = toolCallParser("qwen25");
  const forwardUnknownTools = record.get("forward_unknown_tools") === true;
  const episode = new TauEpisode(data, {
    split: textOf(record, "split") ?? "test",
    user: user.simulator,
    random: { ...createRandom(0), integer: () => Number(record.get("randint")) },
  });
  let parsed = 0;
  let repliesPlayed = 0;

  const environment: SlimeTauEnvironment = {
    reset: (index) => episode.reset(index),
    step: async (action) => {
      const turn = seen.turns.at(-1);
      turn?.set(
        "action",
        new Map<string, JsonValue>([
          ["name", action.name],
          ["kwargs", action.kwargs],
        ]),
      );
      try {
        const step = await episode.step(action);
        turn?.set("observation", step.observation);
        turn?.set("reward", new JsonFloat(step.reward));
        turn?.set("done", step.done);
        turn?.set("source", step.info.get("source") ?? null);
        return step;
      } catch (error) {
        turn?.set("raises", error instanceof PythonError ? error.pythonType : String(error));
        throw error;
      }
    },
  };
  const options: SlimeTauOptions = {
    rolloutArgs:
      record.get("no_rollout_args") === true ? null : { sglangRouterIp: "router.test", sglangRouterPort: 30000 },
    samplingParams: scriptSampling === null ? null : (toPlain(scriptSampling) as Record<string, unknown>),
    taskIndex: numberOrNull(record.get("task_index")),
    toolInstruction: set.toolInstruction,
    ...(typeof record.get("max_num_steps") === "number" ? { maxSteps: Number(record.get("max_num_steps")) } : {}),
  };
  const context = { specialTokens: new Map(), now: null };
  const play = (): Promise<SlimeTauResult> =>
    runSlimeTau(
      {
        renderText: ({ messages, tools: shown, addGenerationPrompt }) =>
          segmentsText(template({ messages, tools: shown, addGenerationPrompt, kwargs: new Map(), context })),
        tokenizer: set.tokenizer,
        post: async (url, { text, sampling_params: sampling }) => {
          const plain = fromPlain(sampling);
          seen.posted.push({
            url,
            text,
            sampling: plain,
            hasScriptSampling: describeDifference(scriptSampling, plain) === null,
          });
          return serverAnswer(replies[repliesPlayed++]);
        },
        parse: (text) => {
          const reply = parsed++;
          const turn: JsonObject = new Map([["reply", reply]]);
          seen.turns.push(turn);
          if (record.get("parser_raises_on_reply") === reply) {
            turn.set("parsed", "failed");
            throw new PythonError("RuntimeError", "the adapter was made to raise");
          }
          const read = parser.parse(text, { tools: data.tools, forwardUnknownTools });
          // Normal text of SGLang before 0.5.23, which recorded these: if no call is read, no text
          // is dropped.
          const result = { ...read, normalText: read.content };
          turn.set("parsed", result.raised === null ? parsedRecord(result) : "failed");
          return result;
        },
        environment,
        tools,
        wiki: data.guidelines,
      },
      options,
    );

  let result: SlimeTauResult | Error;
  try {
    result = await play();
  } catch (error) {
    result = error instanceof Error ? error : new Error(String(error));
  }
  return {
    ...seen,
    userHeard: user.heard,
    repliesLeft: replies.length - repliesPlayed,
    userLinesLeft: user.left(),
    result,
  };
}

/** The customer of a script, who raises where the script requires it. */
function scriptedCustomer(record: JsonObject): {
  readonly simulator: TauUser;
  readonly heard: readonly JsonValue[];
  left(): number;
} {
  const script = record.get("user");
  const lines = script instanceof Map ? listOf(script, "lines") : [];
  const first = script instanceof Map ? textOf(script, "first") : null;
  const heard: JsonValue[] = [];
  let said = 0;
  const reply = async (content: JsonValue): Promise<string | null> => {
    heard.push(content);
    const line = lines[said++];
    if (line instanceof Map) throw raised(line);
    if (line === undefined) throw new Error("The scripted customer has no line left.");
    return typeof line === "string" ? line : null;
  };
  return {
    simulator: { open: async () => first ?? "", reply, cost: () => 0 },
    heard,
    left: () => lines.length - said,
  };
}

/** Answer of the scripted server. Throws where the script has a failure. */
function serverAnswer(reply: JsonValue | undefined): unknown {
  if (!(reply instanceof Map)) throw new Error("The scripted server has no reply left.");
  if (reply.has("raises")) throw raised(reply);
  if (reply.has("raw")) return toPlain(reply.get("raw")!);
  const finish = toPlain(reply.get("finish_reason") ?? null);
  return { text: reply.get("text"), meta_info: { finish_reason: finish } };
}

function raised(record: JsonObject): PythonError {
  return new PythonError(textOf(record, "raises") ?? "Exception", textOf(record, "message") ?? "");
}

function parsedRecord({ normalText, calls }: SlimeTauParsed): JsonObject {
  return new Map<string, JsonValue>([
    ["normal_text", normalText],
    [
      "calls",
      calls.map(
        ({ toolIndex, name, parameters }) =>
          new Map<string, JsonValue>([
            ["tool_index", toolIndex],
            ["name", name],
            ["parameters", parameters],
          ]),
      ),
    ],
  ]);
}

function listOf(record: JsonObject, key: string): readonly JsonValue[] {
  const value = record.get(key);
  return Array.isArray(value) ? value : [];
}

function numberOrNull(value: JsonValue | undefined): number | null {
  return typeof value === "number" ? value : null;
}
