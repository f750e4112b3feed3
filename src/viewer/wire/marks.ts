// Marks of people, and how far judges agree with them: types and names that the server and its page
// share.

import type { Interval } from "../../statistics/index.ts";

/** Whose fault an unsuccessful episode may be. */
export const markFaults = ["agent", "user", "environment", "infrastructure"] as const;

/** What a person said of an episode. */
export type Mark = {
  readonly verdict: "right" | "wrong";
  /** Whose fault it is; `null` if that was not said. */
  readonly fault: (typeof markFaults)[number] | null;
  readonly why: string;
  /** Time at which it was written, in ISO 8601. */
  readonly at: string;
};

/** How far a judge, a reward or the rules of `eval` agree with the marks of a person. */
export type JudgeAgreement = {
  readonly judge: string;
  /** When the judge counts as saying "right"; what it labels, for an attribution of faults. */
  readonly rule: string;
  readonly episodes: number;
  readonly tasks: number;
  readonly agreed: number;
  /** Mean over tasks of the share of equal labels, with its interval at 95 %. */
  readonly share: number;
  readonly interval: Interval | null;
  /** Cohen's kappa with its interval at 95 %; `null` where it is not defined. */
  readonly kappa: number | null;
  readonly kappaInterval: Interval | null;
  /** Number of episodes for each pair of labels, the most frequent first. */
  readonly counts: readonly { readonly person: string; readonly judge: string; readonly episodes: number }[];
};

export type MarkSummary = {
  /** Name of the file that holds the marks. */
  readonly file: string;
  /** Why it cannot be read; `null` if it can. */
  readonly fault: string | null;
  readonly right: number;
  readonly wrong: number;
  /** Number of marks that become labels of `eval --labels`. */
  readonly labels: number;
  /** Number of marks of episodes that the run does not have, and of lines that are not marks. */
  readonly unknown: number;
  readonly unreadable: number;
  /** Marks by the number of their episode: of the first 5,000 episodes that are marked. */
  readonly marks: Readonly<Record<number, Mark>>;
  readonly agreement: readonly JudgeAgreement[];
  /** False while verdicts of judges are being read. */
  readonly isDone: boolean;
};

/** Labels as `eval --labels` reads them: the list, and what it leaves out. */
export type MarkLabels = {
  readonly run: string;
  /** Marks without a fault, or of a task without a number. */
  readonly left_out: number;
  readonly labels: readonly {
    readonly task: number;
    readonly trial: number;
    readonly label: (typeof markFaults)[number];
    readonly reason: string;
    readonly episode: string;
  }[];
};
