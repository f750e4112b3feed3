// Agreement of judges with the marks that people gave: for each score of a judge, for the reward,
// and for the attribution of faults. A score counts as "right" from the middle of its scale on.

import { isSuccess, type Rating, ratingAgreement } from "../statistics/index.ts";
import { objectOf, textOf } from "./episode-store.ts";
import { type JudgeAgreement, type Mark, type PlainJson, type Row, wellFormed } from "./wire/index.ts";

/** The verdict of a judge on one episode. */
export type Saying = { readonly judge: string; readonly rule: string; readonly isRight: boolean };

const passes = "the reward is 1";
const half = "0.5 or more";
/** Scores of an episode that are read, and names that are kept. */
const mostScores = 50;

/**
 * Verdicts that an episode records: of graders that asked a judge, and of the environment beside
 * them. A log of another tool does not say who scored, so that every score between 0 and 1 counts.
 */
export function sayingsOf(stored: PlainJson, { isFile }: { readonly isFile: boolean }): readonly Saying[] {
  const episode = objectOf(stored);
  const metrics = objectOf(objectOf(episode?.["grade"])?.["metrics"]) ?? {};
  const events = episode?.["events"];
  const judges = new Set<string>();
  for (const event of Array.isArray(events) ? (events as readonly PlainJson[]) : []) {
    const judgement = objectOf(objectOf(event)?.["judgement"]);
    const name = textOf(judgement?.["grader"]);
    if (name !== null) judges.add(name);
  }
  const names = isFile ? Object.keys(metrics) : [...judges];
  const sayings: Saying[] = [];
  for (const name of names.slice(0, mostScores)) {
    const value = Object.hasOwn(metrics, name) ? metrics[name] : null;
    if (typeof value !== "number" || !(value >= 0 && value <= 1)) continue;
    sayings.push({ judge: wellFormed(name).slice(0, 100), rule: half, isRight: value >= 0.5 });
  }
  const own = metrics["environment"];
  if (judges.size > 0 && typeof own === "number") {
    sayings.push({ judge: "environment", rule: passes, isRight: isSuccess(own) });
  }
  return sayings;
}

type Marked = { readonly row: Row; readonly mark: Mark; readonly sayings: readonly Saying[] };

/** The agreement of each judge, of the reward and of the attribution, with the marks. */
export function agreementWith(marked: readonly Marked[]): readonly JudgeAgreement[] {
  const tables = new Map<string, { readonly judge: string; readonly rule: string; readonly ratings: Rating[] }>();
  const add = (judge: string, rule: string, rating: Rating): void => {
    const key = JSON.stringify([judge, rule]);
    const table = tables.get(key) ?? { judge, rule, ratings: [] };
    tables.set(key, table);
    table.ratings.push(rating);
  };
  for (const { row, mark, sayings } of marked) {
    const { taskId, reward, fault } = row;
    const verdict = (isRight: boolean): Rating => ({
      taskId,
      first: mark.verdict,
      second: isRight ? "right" : "wrong",
    });
    if (reward !== null) add("reward", passes, verdict(isSuccess(reward)));
    for (const { judge, rule, isRight } of sayings) add(judge, rule, verdict(isRight));
    if (mark.fault === null || fault === null) continue;
    add(`whose fault, by ${fault.by}`, "the same name", { taskId, first: mark.fault, second: fault.fault });
  }
  return [...tables.values()].flatMap(({ judge, rule, ratings }) => {
    const found = ratingAgreement(ratings);
    return found === null ? [] : [{ judge, rule, ...found, counts: countsOf(ratings) }];
  });
}

function countsOf(ratings: readonly Rating[]): JudgeAgreement["counts"] {
  const counts = new Map<string, { person: string; judge: string; episodes: number }>();
  for (const { first: person, second: judge } of ratings) {
    const known = counts.get(`${person} ${judge}`) ?? { person, judge, episodes: 0 };
    counts.set(`${person} ${judge}`, known);
    known.episodes++;
  }
  return [...counts.values()].sort((a, b) => b.episodes - a.episodes);
}
