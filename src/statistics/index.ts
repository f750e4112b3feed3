// Public entry of the statistics: rates over trials and tasks with their intervals, and
// task-by-task comparison of runs. Pure functions of numbers, which also run in a browser.

export {
  agreementLimits,
  commonTrials,
  differenceInterval,
  type Interval,
  type IntervalOptions,
  isSuccess,
  meanInterval,
  passAtK,
  passHatK,
  type PassRate,
  passRates,
  rateInterval,
  type TaskTally,
} from "./rates.ts";
export { type Rating, ratingAgreement, type RatingAgreement, signFlipTest } from "./paired.ts";
export {
  type ComparedEpisode,
  type ComparedRun,
  type ComparedTask,
  compareTasks,
  type Comparison,
  type ComparisonPair,
  type ComparisonRow,
  comparisonSentence,
  type MeanDifference,
  type RowChange,
  type TaskInRun,
} from "./comparison.ts";
