// The teacher of a training, from its settings.

import { ConfigurationError } from "../core/index.ts";
import type { PolicyParts } from "../learner/index.ts";
import { hideSecrets } from "../lib/hidden-parts.ts";
import type { Opened } from "../lib/opened.ts";
import { keyOf } from "../parts/setting.ts";
import type { Surroundings } from "./surroundings.ts";
import { openTeacher, teacherLogprobs } from "./teacher.ts";
import type { TrainSettings } from "./train-settings.ts";

/** Logprobs of the teacher that the settings name, which `opened` receives; `null` if they name none. */
export async function openTrainingTeacher(
  { settings, surroundings }: { readonly settings: TrainSettings; readonly surroundings: Surroundings },
  student: string,
  {
    signal,
    notice,
    opened,
  }: { readonly signal: AbortSignal; readonly notice: (message: string) => void; readonly opened: Opened },
): Promise<NonNullable<PolicyParts["teacher"]> | null> {
  const { teacher, teacherModel: model, teacherUrl: url, teacherApiKeyEnv: apiKeyEnv } = settings;
  if (teacher === null) {
    const other = (["teacherModel", "teacherUrl", "teacherApiKeyEnv"] as const).find((name) => settings[name] !== null);
    if (other === undefined) return null;
    throw new ConfigurationError(
      `Cannot use --${keyOf(other)} without --teacher: it is about the teacher; name its engine.`,
    );
  }
  const { cwd, env: variables } = surroundings;
  const weights = teacher === "llama-cpp" ? { gguf: model } : { model };
  const options = { teacher, ...weights, url, apiKeyEnv };
  const open = await openTeacher(options, { cwd, variables, signal, student: { folder: student }, onNotice: notice });
  opened.add(() => open.close());
  return teacherLogprobs(open, signal);
}

/** Settings of the training without the secrets of an address. */
export function shownSettings(settings: TrainSettings): TrainSettings {
  const { teacherUrl } = settings;
  return { ...settings, teacherUrl: teacherUrl === null ? null : hideSecrets(teacherUrl) };
}
