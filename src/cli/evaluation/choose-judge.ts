// The model that attributes what rules leave open, by the names of the command line. None unless one is named.

import { ConfigurationError } from "../../core/index.ts";
import { createChatModel, createModelCaller } from "../../chat-models/index.ts";
import type { JudgeModel } from "../../graders/index.ts";
import type { CliContext } from "../cli-context.ts";
import { checkChatModel } from "../../api/first-contact.ts";
import { readKey } from "../../api/secrets.ts";
import type { EvalSettings } from "../../api/eval-settings.ts";

type JudgeSettings = Pick<EvalSettings, "judgeModel" | "judgeUrl" | "judgeApiKeyEnv">;

/** What a fault grader takes of the command line. The first failure of the judge is told, and stands for the others. */
export function judgeParts(
  settings: JudgeSettings,
  { env, stderr, cancel }: Pick<CliContext, "env" | "stderr" | "cancel">,
): { judge: JudgeModel | null; onJudgeFault: (reason: string) => void; signal: AbortSignal } {
  let isTold = false;
  return {
    judge: chooseJudge(settings, { env }),
    onJudgeFault: (reason) => {
      if (!isTold) stderr.write(`Note: the judge could not be asked, rules alone decide: ${reason}\n`);
      isTold = true;
    },
    signal: cancel,
  };
}

/**
 * Asks the judge's server whether it is there and has the model. Rejects with a `ConfigurationError` when it is not, and for
 * settings that cannot work.
 */
export async function checkJudge(
  settings: JudgeSettings,
  { env, drain, cancel }: Pick<CliContext, "env" | "drain" | "cancel">,
): Promise<void> {
  const { judgeModel: model, judgeUrl: url, judgeApiKeyEnv } = settings;
  chooseJudge(settings, { env });
  if (model === null || url === null) return;
  const apiKey = readKey(env, judgeApiKeyEnv, "--judge-api-key-env");
  await checkChatModel({ part: "judge", url, model, apiKey, variables: env }, AbortSignal.any([drain, cancel]));
}

/** `null`: rules alone. Throws a `ConfigurationError` for settings that cannot work. */
function chooseJudge(
  { judgeModel, judgeUrl, judgeApiKeyEnv }: JudgeSettings,
  { env }: Pick<CliContext, "env">,
): JudgeModel | null {
  if (judgeModel === null) {
    if (judgeUrl === null && judgeApiKeyEnv === null) return null;
    throw new ConfigurationError("Cannot make a judge: no model is named; give --judge-model <name>.");
  }
  const apiKey = readKey(env, judgeApiKeyEnv, "--judge-api-key-env");
  const model = createChatModel(
    { part: "agent", title: "the judge" },
    {
      model: judgeModel,
      variables: env,
      ...(judgeUrl === null ? {} : { url: judgeUrl }),
      ...(apiKey === null ? {} : { apiKey }),
    },
  );
  const caller = createModelCaller(model, "agent");
  return {
    complete: (messages, options) =>
      caller.ask(messages, (reply) => ({ text: reply.text }), { signal: options?.signal, meter: () => undefined }),
  };
}
