// Agreement of the attribution of failures with labels given by hand: precision and recall for each
// label.

import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";
import { type Fault, faults } from "./fault-attribution.ts";
import type { EpisodeScore } from "./episode-score.ts";
import { readRegular } from "../system/regular-file.ts";

const labelList = z.array(
  z.object({ task: z.number().int(), trial: z.number().int(), label: z.enum(["agent", "user", "environment", "infrastructure"]) }),
); // prettier-ignore

export type Label = z.infer<typeof labelList>[number];

/** Lists of labels by their name in the file. */
export type LabelFile = ReadonlyMap<string, readonly Label[]>;

/**
 * Reads a label file: an object whose lists hold {task, trial, label}. Throws a
 * `ConfigurationError` for any other content.
 */
export async function readLabels(path: string, name: string): Promise<LabelFile> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(await readRegular(path, "utf8"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot read labels from "${name}": ${reason}; correct --labels.`, { cause: error });
  }
  const lists = Object.entries(typeof parsed === "object" && parsed !== null ? parsed : {}).flatMap(
    ([key, value]: [string, unknown]) => {
      const list = labelList.safeParse(value);
      return list.success ? [[key, list.data] as const] : [];
    },
  );
  if (lists.length > 0) return new Map(lists);
  throw new ConfigurationError(
    `Cannot read labels from "${name}": it has no list of {task, trial, label}; correct the file, or --labels.`,
  );
}

export type Agreement = {
  readonly label: Fault;
  /** Number of failures that were given this label by hand. */
  readonly labelled: number;
  /** Number of those failures to which the grader gave this label. */
  readonly found: number;
  readonly right: number;
};

/**
 * Compares each label with the grader's. Labels of episodes that are missing, or passed, are
 * ignored.
 */
export function agreementOf(labels: readonly Label[], scores: readonly EpisodeScore[]): readonly Agreement[] {
  const graded = new Map(scores.map(({ taskIndex, trial, fault }) => [`${taskIndex}/${trial}`, fault?.fault ?? null]));
  const pairs = labels.flatMap(({ task, trial, label }) => {
    const found = graded.get(`${task}/${trial}`) ?? null;
    return found === null ? [] : [{ label, found }];
  });
  return faults.map((label) => ({
    label,
    labelled: pairs.filter((pair) => pair.label === label).length,
    found: pairs.filter((pair) => pair.found === label).length,
    right: pairs.filter((pair) => pair.found === label && pair.label === label).length,
  }));
}
