/**
 * The layout of the run folders that this version writes, `format` of run.json. It reads those of format 1, too, whose lines
 * have no checksum, and resumes only its own.
 */
export const runFormat = 2;

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
