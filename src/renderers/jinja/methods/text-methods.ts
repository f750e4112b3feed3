// Every method of `str` that templates can call, by name, but for `format`, which looks things up itself (`lookup.ts`).

import { textBuildMethods } from "./text-build.ts";
import { textCaseMethods } from "./text-case.ts";
import type { TextMethod } from "./text-method.ts";
import { textQuestionMethods } from "./text-questions.ts";
import { textSearchMethods } from "./text-search.ts";
import { textSplitMethods } from "./text-split.ts";
import { textStripMethods } from "./text-strip.ts";

export const textMethods: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  ...textBuildMethods,
  ...textCaseMethods,
  ...textQuestionMethods,
  ...textSearchMethods,
  ...textSplitMethods,
  ...textStripMethods,
]);
