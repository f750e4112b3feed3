// Public entry of tasks as data: files of tasks, and functions that give pages of them, as tables with
// random access.

export { openTasks, type TaskOptions } from "./open-tasks.ts";
export type { TaskPages } from "./task-pages.ts";
export {
  type RowFacts,
  type RowReader,
  splitFacts,
  type TaskRow,
  type TaskSplit,
  type TaskTable,
  type TraitFacts,
} from "./task-table.ts";
