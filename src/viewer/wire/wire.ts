// Messages of the viewer's server to its page: only types, for both sides. An episode travels as
// its line of episodes.jsonl, so that the page reads what the run wrote; see `decode.ts`.

import type { Episode, Outcome } from "../../core/index.ts";
import type { Comparison, ComparisonRow, PassRate } from "../../statistics/index.ts";

/** A JSON value as `JSON.parse` makes it. */
export type PlainJson = null | boolean | number | string | readonly PlainJson[] | PlainObject;
export type PlainObject = { readonly [key: string]: PlainJson };

/** A record with plain objects where ours has maps. */
export type Plain<T> =
  T extends ReadonlyMap<string, unknown>
    ? PlainObject
    : T extends Uint32Array | Float32Array | Uint8Array
      ? T
      : T extends readonly (infer Item)[]
        ? readonly Plain<Item>[]
        : T extends object
          ? { readonly [Key in keyof T]: Plain<T[Key]> }
          : T;

export type ShownEpisode = Plain<Episode>;
export type ShownEvent = Plain<Episode["events"][number]>;

/** An episode in the table. */
export type Row = {
  /** Number of the episode, from 1, in the order in which episodes ended. */
  readonly number: number;
  readonly id: string;
  readonly groupId: string;
  readonly taskId: string;
  /** Place of the task in its split; `null` if not recorded. */
  readonly taskIndex: number | null;
  /** Environment and split, as `eval` titles them; `null` if not recorded. */
  readonly domain: string | null;
  /** `null` if not recorded. */
  readonly contentHash: string | null;
  readonly sampleIndex: number;
  readonly outcome: Outcome;
  readonly stopReason: string;
  /** `boundary/code`; `null` if it did not fail. */
  readonly failure: string | null;
  readonly reward: number | null;
  /** `null` if not recorded. */
  readonly turns: number | null;
  /** Tokens of all turns, each counted once. `null` if the file records no tokens. */
  readonly tokens: number | null;
  readonly sampledTokens: number | null;
  /** Counts by code. */
  readonly formatErrors: Readonly<Record<string, number>>;
  /** The grader's log or the failure, shortened; empty if there is neither. */
  readonly sentence: string;
  /**
   * The grader's sentences without the parts that differ between tasks, so that episodes share
   * them.
   */
  readonly phrases: readonly string[];
  /** Sum of the measured durations; `null` if none was measured. */
  readonly durationMs: number | null;
  /** Whose fault an unsuccessful episode is; `null` for a success, and until it is attributed. */
  readonly fault: RowFault | null;
  /** Facts that only the whole episode has; `null` until it is read. */
  readonly extract: EpisodeExtract | null;
};

export type RowFault = {
  readonly fault: "agent" | "user" | "environment" | "infrastructure";
  /** Name of the rule that applied. */
  readonly rule: string;
  readonly evidence: string;
  readonly by: "rules" | "judge";
};

/** Parts of an episode that its index does not have, cut to a line. */
export type EpisodeExtract = {
  /** First utterance of the user; empty if there is none. */
  readonly firstUserText: string;
  /** The last that the agent said, or its last call if it said nothing. */
  readonly lastAgentText: string;
  /** Sum of agent, user and judge in US dollars; `null` if it is not known. */
  readonly cost: number | null;
};

/** Rates of one environment and split, or of all. */
export type Domain = {
  readonly title: string;
  readonly tasks: number;
  readonly episodes: number;
  readonly graded: number;
  readonly meanReward: number | null;
  readonly passRates: readonly PassRate[];
};

export type RunKind = "run" | "training" | "file" | "service";

export type CallFacts = {
  /** Name of the engine; `null` for a model behind an API. */
  readonly engine: string | null;
  /** Recorded address; not one of HTTP if the policy was sampled in the process of the run. */
  readonly address: string;
  /** Sampling parameters by their names in requests. */
  readonly sampling: PlainObject;
};

/** Facts about a run without its episodes. */
export type RunFacts = {
  /** Name of the run in addresses: its place among the runs that were named, or its path below the folder that is listed. */
  readonly key: string;
  readonly name: string;
  readonly location: string;
  readonly kind: RunKind;
  /** Status in run.json; "killed" if that is "running" and its process is gone. */
  readonly status: string;
  readonly isLive: boolean;
  readonly startedAt: string | null;
  readonly environment: string | null;
  readonly split: string | null;
  readonly model: string | null;
  readonly engine: string | null;
  readonly historyPolicy: string | null;
  /** Number of episodes that the run plans; `null` if not known. */
  readonly planned: number | null;
  /** Server and sampling parameters of the policy; `null` where no server is recorded. */
  readonly calls: CallFacts | null;
  readonly hasEpisodes: boolean;
  readonly hasTraining: boolean;
  /** Facts that the format of another tool's file does not record, as sentences. */
  readonly missing: readonly string[];
  /** Why people cannot mark episodes here; `null` if they can. */
  readonly readOnly: string | null;
};

/** A run, a training or a log of another tool in the list of a folder. */
export type HomeEntry = {
  /** Path below the folder, with "/"; names the run in addresses. */
  readonly key: string;
  readonly kind: Exclude<RunKind, "service">;
  readonly name: string;
  readonly environment: string | null;
  /** Model or agent, and its engine; `null` if not recorded. */
  readonly policy: string | null;
  /** Status like that of {@link RunFacts}; "unreadable" if it cannot be read, see `fault`. */
  readonly status: string;
  readonly isLive: boolean;
  /** Start of the run, or the time at which its file was written, in milliseconds of Unix time. */
  readonly startedMs: number;
  /** `null` where it is not known, or not read yet. */
  readonly episodes: number | null;
  /** Number of episodes that the run plans; `null` if not known. */
  readonly planned: number | null;
  /** Mean over tasks; of a training, the last one on held-out tasks. `null` if nothing was graded. */
  readonly passRate: number | null;
  readonly interval: Interval | null;
  /** Sum of agent, user and judge in US dollars; `null` if one of them is not known. */
  readonly cost: number | null;
  /** Pass rates of a training at up to 40 steps; empty for a run. */
  readonly curve: readonly (number | null)[];
  /** Why it cannot be shown, or what of it was not read; `null` for a readable one. */
  readonly fault: string | null;
};

export type HomePage = {
  /** Path of the folder. */
  readonly folder: string;
  /** Identifier that differs after every change. */
  readonly version: string;
  readonly entries: readonly HomeEntry[];
  readonly matched: number;
  readonly total: number;
  /** True while rates of some entries are not read yet. */
  readonly isReading: boolean;
  /** Sentences that say what was left out of the list. */
  readonly notes: readonly string[];
};

export type Interval = { readonly low: number; readonly high: number };

/** A reason that unsuccessful episodes share, and their number. */
export type Reason = {
  readonly kind: "grade" | "format error" | "error" | "stop reason" | "fault" | "mark";
  readonly label: string;
  readonly count: number;
};

/** Course of a run: means of up to 60 equal parts. */
export type Course = {
  /** Place of the last episode of each part, in the order of the course. */
  readonly episodes: readonly number[];
  readonly reward: readonly (number | null)[];
  readonly turns: readonly (number | null)[];
  readonly pass: readonly (number | null)[];
};

export type Summary = {
  readonly facts: RunFacts;
  /** Identifier that differs after every change. */
  readonly version: string;
  /** Number of episodes read so far, out of `episodes`. */
  readonly read: number;
  readonly episodes: number;
  readonly graded: number;
  readonly passed: number;
  /** Mean over tasks; `null` if nothing was graded. */
  readonly passRate: number | null;
  /** Confidence interval at 95 %, over tasks. */
  readonly interval: Interval | null;
  readonly meanReward: number | null;
  readonly tasks: number;
  readonly neverPassed: number;
  readonly alwaysPassed: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly reasons: readonly Reason[];
  readonly masks: MaskCheck;
  /** `null` if no trainer's logprobs are laid over the run. */
  readonly trainer: TrainerCheck | null;
  /** `plan`: task by task, as the run plans them; `ended`: in the order in which episodes ended. */
  readonly courses: { readonly plan: Course; readonly ended: Course };
  /** Graded episodes that did not pass; `errored` have no reward because of a fault. */
  readonly unsuccessful: number;
  readonly errored: number;
  /** One for each environment and split, and all of them, if there are several; else that one. */
  readonly domains: readonly Domain[];
  /** Unsuccessful and errored episodes by whose fault they are; `null` where nothing is attributed. */
  readonly faults: { readonly counts: Readonly<Record<RowFault["fault"], number>>; readonly isDone: boolean } | null;
  readonly marks: MarkSummary;
};

/**
 * Result of the check that, in each episode, every sampled token is trained exactly once or dropped
 * for a stated reason.
 */
export type MaskCheck = {
  readonly checked: number;
  /** Number of episodes without tokens, such as those of models behind an API. */
  readonly withoutTokens: number;
  /** Numbers of the first episodes that violate this. */
  readonly wrong: readonly number[];
  readonly isDone: boolean;
};

/** The lines of a trainer's file that name an episode. */
export type TrainerLines = {
  /** Name of the file. */
  readonly file: string;
  readonly rows: readonly {
    /** Line number in the file, from 1. */
    readonly line: number;
    readonly branch: number;
    /** Packed as `<f4`; NaN if the trainer has none. */
    readonly logprobs: string;
  }[];
};

/** Distances between a trainer's logprobs and the sampled ones. */
export type Difference = {
  /** Number of trained tokens that have both. */
  readonly tokens: number;
  readonly sum: number;
  readonly largest: number;
};

/** Distance of a trainer's logprobs from the sampled ones, in the episodes that were read so far. */
export type TrainerCheck = {
  readonly file: string;
  readonly difference: Difference;
  /** Number of the episode with the largest difference; `null` if nothing could be compared. */
  readonly largestIn: number | null;
  /** Trained tokens for which the trainer has no logprob. */
  readonly missing: number;
  /**
   * Number of training rows without a usable line; `problems` are the numbers of the first episodes
   * with something to report.
   */
  readonly bare: number;
  readonly problems: readonly number[];
  /** Number of episodes that the file names and the run lacks; `null` if not known yet. */
  readonly unknown: number | null;
};

export type RowPage = {
  readonly version: string;
  readonly matched: number;
  readonly total: number;
  readonly rows: readonly Row[];
  /** True if the rows are only those after the row that the page had. */
  readonly isContinued: boolean;
  /** Number of episodes that are not read yet, so that a filter may miss them. */
  readonly unread: number;
};

export type TaskRow = {
  readonly taskId: string;
  readonly groupId: string;
  readonly episodes: number;
  readonly graded: number;
  readonly passed: number;
  readonly meanReward: number | null;
};

export type TaskPage = { readonly tasks: readonly TaskRow[]; readonly matched: number; readonly total: number };

export type EpisodePage<Line = ShownEpisode> = {
  readonly row: Row;
  /** The episodes of its group, in the order of their place in it. */
  readonly group: readonly Row[];
  /** Numbers of the neighbours in the run; `null` at its ends. */
  readonly previous: number | null;
  readonly next: number | null;
  /** `null` if no trainer's logprobs are laid over the run. */
  readonly trainer: TrainerLines | null;
  /** `null` if no one marked it. */
  readonly mark: Mark | null;
  readonly episode: Line;
};

/** The text of a run of tokens, and the UTF-16 length of each; a character of several tokens belongs to the last of them. */
export type TokenText = { readonly text: string; readonly lengths: Uint16Array };

/** Text of each turn: its observation and its action. */
export type TurnText = { readonly observation: TokenText; readonly action: TokenText };

export type Hit = {
  readonly number: number;
  readonly id: string;
  readonly reward: number | null;
  readonly before: string;
  readonly match: string;
  readonly after: string;
};

/** The last line of a search. */
export type SearchEnd = { readonly episodes: number; readonly hits: number; readonly isWhole: boolean };

/** Runs compared task by task. */
export type ComparePage = Omit<Comparison, "rows"> & {
  /** Key of each compared run, as in {@link RunFacts}. */
  readonly keys: readonly string[];
  /** The sentence of each pair. */
  readonly sentences: readonly string[];
  /** The first rows: lost tasks, gained tasks, then the largest differences. */
  readonly rows: readonly ComparisonRow[];
  readonly matched: number;
};

/** A point of a training: a step, with everything that was recorded for it. */
export type TrainingPoint = Readonly<Record<string, number | null>>;

export type Training = {
  readonly facts: RunFacts;
  readonly version: string;
  /** One sentence, and the evidence for it. */
  readonly verdict: { readonly level: "good" | "warning" | "bad" | "open"; readonly text: string };
  readonly signs: readonly { readonly level: "good" | "warning" | "bad"; readonly text: string }[];
  readonly steps: readonly TrainingPoint[];
  /** True if the groups of steps were recorded. */
  readonly hasGroups: boolean;
  /** Before and after, on held-out tasks; `null` if the training has not ended. `greedy`: at temperature 0. */
  readonly comparison: readonly PlainObject[] | null;
  readonly greedy: readonly PlainObject[] | null;
  readonly end: string | null;
};

/** A group of a step: its rewards, without its episodes. */
export type TrainingGroup = {
  readonly task: string;
  /** Place of the task in its split; `null` if not recorded. */
  readonly index: number | null;
  readonly rewards: readonly (number | null)[];
  readonly taught: boolean;
  /** Format errors of its episodes, and tokens sampled in them; `null` if not recorded. */
  readonly problems: number | null;
  readonly sampledTokens: number | null;
};

/** The groups of a step; `groups` is `null` if they were not recorded. */
export type TrainingStep = { readonly step: number; readonly groups: readonly TrainingGroup[] | null };

/** The server's answer to a request that it cannot serve. */
export type Refusal = { readonly error: string };

/** The mark of a person on an episode. */
export type Mark = {
  readonly verdict: "right" | "wrong";
  /** Whose fault it is; `null` if that was not said. */
  readonly fault: RowFault["fault"] | null;
  readonly why: string;
  /** Time at which it was written, in ISO 8601. */
  readonly at: string;
};

/** Agreement of a judge, a reward or the rules of `eval` with the marks of a person. */
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
    readonly label: RowFault["fault"];
    readonly reason: string;
    readonly episode: string;
  }[];
};
