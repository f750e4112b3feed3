/** The files of a run folder; see docs/run-folder.md. */
export const runFiles = Object.freeze({
  manifest: "run.json",
  episodes: "episodes.jsonl",
  groups: "groups.jsonl",
  samples: "samples.jsonl",
  /** A folder; there while something is under way. */
  journal: "journal",
  /** There while a process writes. */
  lock: "run.lock",
});
