// External programs that this process runs, and all their descendants.

export { killOrphans, markName, newMark, killMarked } from "./marks.ts";
export { beginOf } from "./process-begin.ts";
export { Program, type ProgramCommand } from "./program.ts";
