// A teacher's logprobs in the rows of trainers, under the names that their distillation reads: slime
// (`Sample`), verl (`AgentLoopOutput`, verl 0.9.1), TRL (`RolloutSample` of the asynchronous
// distillation trainer, TRL 1.16) and tinker (tinker-cookbook 0.6). Only rows of runs that were
// scored have these fields.

import type { Sample, ScoreResult } from "../core/index.ts";
import { type AnyRow, columns, floatLists, floats, intLists, orNull } from "./columns.ts";

/** Scores of a sample's tokens from position `from` on. */
export type TeacherScores = { readonly from: number; readonly scores: ScoreResult };

/** Adds the scores of its sample to a row; `null` if the sample is not scored. */
export type TeacherFields<Row> = (row: Row, sample: Sample, teacher: TeacherScores | null) => Row;

export const slimeTeacherColumns = columns<AnyRow>({
  teacher_log_probs: orNull(floats("logprobs of the response under a teacher; null: not scored")),
});

export const addSlimeTeacher = <Row extends object>(row: Row, sample: Sample, teacher: TeacherScores | null): Row => ({
  ...row,
  teacher_log_probs: ownLogprobs(sample, teacher, sample.sampledMask.indexOf(1)),
});

export const tinkerTeacherColumns = columns<AnyRow>({
  teacher_logprobs: orNull(
    floats("logprobs of the targets under a teacher, 0.0 before the first action; null: not scored"),
  ),
});

export const addTinkerTeacher = <Row extends object>(row: Row, sample: Sample, teacher: TeacherScores | null): Row => ({
  ...row,
  teacher_logprobs: ownLogprobs(sample, teacher, 1),
});

/** Logprobs of the tokens from `start` on; 0 where not scored. */
function ownLogprobs(sample: Sample, teacher: TeacherScores | null, start: number): number[] | null {
  if (teacher === null) return null;
  const { from, scores } = teacher;
  return Array.from({ length: sample.tokens.length - start }, (_, at) => scores.logprobs[start + at - from] ?? 0);
}

/** Place `i` of verl's lists belongs to the token after token `i`; the last place is a filler. */
export const addVerlTeacher = <Row extends { readonly extra_fields: object }>(
  row: Row,
  sample: Sample,
  teacher: TeacherScores | null,
): Row => {
  if (teacher === null) return row;
  const { tokens } = sample;
  const listed = listedTokens(sample, teacher, { withOwn: false });
  const width = Math.max(1, teacher.scores.top?.width ?? 0);
  // Before the first scored token, and after the last one.
  const fillerAt = (place: number): Listed => ({
    ids: Array.from({ length: width }, () => tokens[place] ?? 0),
    logprobs: Array.from({ length: width }, () => 0),
  });
  const places = Array.from(tokens.keys(), (at) => listed[at + 1 - teacher.from] ?? fillerAt(at + 1));
  return {
    ...row,
    extra_fields: {
      ...row.extra_fields,
      teacher_ids: places.map(({ ids }) => ids),
      teacher_logprobs: places.map(({ logprobs }) => logprobs),
    },
  };
};

export const trlTeacherColumns = columns<AnyRow>({
  teacher_topk_ids: orNull(
    intLists(
      "for each token of prompt and completion: the teacher's most probable ones, and the token itself; -1 where there is none",
    ),
  ),
  teacher_topk_logprobs: orNull(floatLists("aligned with `teacher_topk_ids`; -Infinity where there is none")),
});

export const addTrlTeacher = <Row extends object>(row: Row, sample: Sample, teacher: TeacherScores | null): Row => {
  if (teacher === null) return { ...row, teacher_topk_ids: null, teacher_topk_logprobs: null };
  const width = (teacher.scores.top?.width ?? 0) + 1;
  const listed = listedTokens(sample, teacher, { withOwn: true });
  const padded = <T>(values: readonly T[], filler: T): T[] => [
    ...values,
    ...Array.from({ length: width - values.length }, () => filler),
  ];
  const places = Array.from(sample.tokens.keys(), (at) => listed[at - teacher.from] ?? { ids: [], logprobs: [] });
  return {
    ...row,
    teacher_topk_ids: places.map(({ ids }) => padded(ids, -1)),
    teacher_topk_logprobs: places.map(({ logprobs }) => padded(logprobs, -Infinity)),
  };
};

type Listed = { readonly ids: readonly number[]; readonly logprobs: readonly number[] };

/**
 * The most probable tokens at each scored position; the token itself if none were requested.
 * `withOwn`: also the token itself where it is not one of them.
 */
function listedTokens(
  { tokens }: Sample,
  { from, scores: { logprobs: own, top } }: TeacherScores,
  { withOwn }: { readonly withOwn: boolean },
): readonly Listed[] {
  return Array.from(own, (logprob, index) => {
    const id = tokens[from + index] ?? 0;
    if (top === null) return { ids: [id], logprobs: [logprob] };
    const [start, end] = [index * top.width, (index + 1) * top.width];
    const ids = [...top.ids.subarray(start, end)];
    const logprobs = [...top.logprobs.subarray(start, end)];
    return !withOwn || ids.includes(id) ? { ids, logprobs } : { ids: [...ids, id], logprobs: [...logprobs, logprob] };
  });
}
