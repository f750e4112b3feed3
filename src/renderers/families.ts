// Every family there is a native renderer for.

import { ConfigurationError } from "../core/index.ts";
import { deepseekFamilies } from "./deepseek/families.ts";
import { glmFamilies } from "./glm/families.ts";
import { gptOssFamilies } from "./gpt-oss/families.ts";
import { hermesFamilies } from "./hermes/families.ts";
import { kimiFamilies } from "./kimi/families.ts";
import { llamaFamilies } from "./llama/families.ts";
import { minimaxFamilies } from "./minimax/families.ts";
import { qwenFamilies } from "./qwen/families.ts";
import { smollm3Families } from "./smollm3/families.ts";
import type { RendererFamily } from "./renderer-family.ts";

const families: ReadonlyMap<string, RendererFamily> = new Map(
  [
    ...qwenFamilies,
    ...llamaFamilies,
    ...hermesFamilies,
    ...glmFamilies,
    ...kimiFamilies,
    ...deepseekFamilies,
    ...smollm3Families,
    ...gptOssFamilies,
    ...minimaxFamilies,
  ].map((family) => [family.name, family]),
);

export const rendererFamilyNames: readonly string[] = [...families.keys()];

/** The family of a name. Throws a `ConfigurationError` that lists the names there are. */
export function rendererFamily(name: string): RendererFamily {
  const family = families.get(name);
  if (family !== undefined) return family;
  throw new ConfigurationError(
    `Cannot render for model family "${name}": it is not known; use one of ${rendererFamilyNames.join(", ")}.`,
  );
}
