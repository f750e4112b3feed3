// The chat templates that families publish, from ../shared/models. Without that folder, tests are about the families that the
// bundled template renders.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { repositoryRoot, sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Renderer, Tokenizer } from "../core/index.ts";
import { rendererFor } from "./choose-renderer.ts";
import { rendererFamily, rendererFamilyNames } from "./families.ts";
import type { RendererOptions } from "./template-renderer.ts";
import { bundledChatTemplate } from "./bundled-template.ts";

export const models = sharedFolder("models");

/** The families whose templates are at hand. */
export const testedFamilies: readonly string[] = rendererFamilyNames.filter(
  (name) => models !== null || rendererFamily(name).isBundledFormat,
);

/** Of a family; the bundled one without ../shared, in tests that are skipped then or take any template. */
export function publishedTemplate(name: string): string {
  if (models === null) return bundledChatTemplate;
  const file = join(models, name, "chat_template.jinja");
  if (!existsSync(file)) throw new Error(`Cannot test family "${name}": "${file}" is missing; put its template there.`);
  return readFileSync(file, "utf8");
}

/** Of our own making: leaves the thinking of earlier turns out, as Qwen3's does. */
export const thinkingTemplate = readFileSync(join(repositoryRoot(), "examples", "thinking-template.jinja"), "utf8");

/** The renderer of a family with its published template. */
export function publishedRenderer(name: string, tokenizer: Tokenizer, options: RendererOptions = {}): Renderer {
  return rendererFor(name, tokenizer, { chatTemplate: publishedTemplate(name), ...options });
}
