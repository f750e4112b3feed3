import type { CliContext } from "../cli-context.ts";

/** Given by the program to its commands: runs one with the context, and keeps its exit code. */
export type RunCommand = (command: (context: CliContext) => Promise<number>) => Promise<void>;
