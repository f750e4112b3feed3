// Programs of others that this process runs, and everything that they start.

export { killOrphans, markName, newMark, killMarked } from "./marks.ts";
export { beginOf } from "./process-begin.ts";
export { Program, type ProgramCommand } from "./program.ts";
