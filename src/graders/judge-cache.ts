// Answers of judges in a file, by the digest of their question, one a line. Read whole at the start and appended to: an answer is
// on its way to the file before it counts.

import { appendFile, readFile, truncate } from "node:fs/promises";
import { z } from "zod";
import { ConfigurationError, faultAt, type Judgement, messageOf } from "../core/index.ts";

export type CachedAnswer = Pick<Judgement, "grader" | "model" | "digest" | "usage"> & { readonly answer: string };

/** Answers of earlier calls. */
export interface JudgeCache {
  /** `null`: there is none. `model`: whose answer; `null`: anybody's. */
  find(digest: string, model: string | null): CachedAnswer | null;
  /** Resolves once it is kept. A rejection fails the grading that asked. */
  store(answer: CachedAnswer): Promise<void>;
}

const count = z.number().min(0);
const usage = z.strictObject({
  modelCalls: count,
  inputTokens: count,
  outputTokens: count,
  cost: count.nullable(),
});
const line = z.strictObject({ grader: z.string(), model: z.string(), digest: z.string(), answer: z.string(), usage });

/**
 * The answers in a file, which need not exist. A last line that is torn is left out; throws a `ConfigurationError` that names any
 * other line that is no answer. `redact`: takes secrets out of what is written.
 */
export async function openJudgeCache(
  path: string,
  options: { readonly redact?: (text: string) => string } = {},
): Promise<JudgeCache> {
  const { redact = String } = options;
  const answers = new Map<string, CachedAnswer>();
  const keyOf = (digest: string, model: string): string => JSON.stringify([digest, model]);
  const keep = (answer: CachedAnswer): void => {
    answers.set(answer.digest, answer);
    answers.set(keyOf(answer.digest, answer.model), answer);
  };
  const bytes = await readFile(path).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return Buffer.alloc(0);
    throw new ConfigurationError(
      `Cannot read the judge's answers in "${path}": ${messageOf(error)}; correct --judge-cache.`,
    );
  });
  const whole = bytes.lastIndexOf("\n") + 1;
  const lines = bytes.toString("utf8", 0, whole).split("\n");
  for (const [index, content] of lines.entries()) {
    if (content.trim() === "") continue;
    const { data } = z.preprocess(parseOrNull, line).safeParse(content);
    if (data === undefined) {
      throw new ConfigurationError(
        `Cannot read the judge's answers in "${path}": line ${index + 1} is no answer of a judge; correct --judge-cache, or cut the line.`,
      );
    }
    keep(data);
  }
  // What a killed process left of a line must not run into the next one.
  let written: Promise<void> = whole === bytes.length ? Promise.resolve() : truncate(path, whole);
  return {
    find: (digest, model) => answers.get(model === null ? digest : keyOf(digest, model)) ?? null,
    store: async (answer) => {
      const content = `${redact(JSON.stringify(answer))}\n`;
      const writing = written.catch(() => undefined).then(() => appendFile(path, content));
      written = writing;
      try {
        await writing;
      } catch (error) {
        throw faultAt(
          "grader",
          "cache-not-written",
          `Cannot keep the judge's answer in "${path}": ${messageOf(error)}.`,
        );
      }
      keep(answer);
    },
  };
}

function parseOrNull(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return null;
  }
}
