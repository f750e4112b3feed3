// Implementation of `npm run conformance`: runs one suite's golden files from a folder and prints
// the result of each. Not a test runner; the tests call the suites themselves.

import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

import { ConfigurationError } from "#src/core/index.ts";
import type { GoldenFileReport, GoldenSuite } from "./suite.ts";

export type ConformanceOptions = {
  /** The suites that can be named, in display order. */
  readonly suiteNames: readonly string[];
  readonly loadSuite: (name: string) => Promise<GoldenSuite | null>;
  /** Prints one line of the report. */
  readonly print: (line: string) => void;
  /** Prints one line that explains why nothing was run. */
  readonly printError: (line: string) => void;
};

type Request = {
  readonly suite: GoldenSuite;
  readonly folder: string;
  readonly data: string | null;
  readonly allowUnsupported: boolean;
};

/** Maximum number of differences shown in total. */
const shownFailures = 10;

const usage = "npm run conformance -- <suite> <folder> [--data <folder>] [--allow-unsupported]";

/**
 * Runs the suite that the parameters name and resolves to the exit code: 0 if everything passed, 1
 * if something failed, 2 if nothing could be run (after one sentence with the reason).
 *
 * Unsupported records count as failed, unless `--allow-unsupported` is given.
 */
export async function runConformance(parameters: readonly string[], options: ConformanceOptions): Promise<number> {
  try {
    return await play(await readRequest(parameters, options), options.print);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    options.printError(error.message);
    return 2;
  }
}

async function readRequest(parameters: readonly string[], options: ConformanceOptions): Promise<Request> {
  const { values, positionals } = parse(parameters);
  const suites = `suites are ${options.suiteNames.join(", ")}`;
  const [name, folder, ...rest] = positionals;
  if (name === undefined || folder === undefined || rest.length > 0) {
    throw new ConfigurationError(
      `Cannot run golden files: ${positionals.length} positional parameters given, a suite and a folder wanted; ` +
        `use ${usage} (${suites}).`,
    );
  }
  const suite = await options.loadSuite(name);
  if (suite === null) {
    throw new ConfigurationError(`Cannot run golden files: there is no suite "${name}"; ${suites}.`);
  }
  for (const path of values.data === undefined ? [folder] : [folder, values.data]) {
    if (!existsSync(path) || !statSync(path).isDirectory()) {
      throw new ConfigurationError(
        `Cannot run suite "${name}": "${path}" is not a folder; name an existing one, relative to "${process.cwd()}".`,
      );
    }
  }
  return {
    suite,
    folder: resolve(folder),
    data: values.data === undefined ? null : resolve(values.data),
    allowUnsupported: values["allow-unsupported"],
  };
}

function parse(parameters: readonly string[]) {
  try {
    return parseArgs({
      args: [...parameters],
      allowPositionals: true,
      options: {
        data: { type: "string" },
        "allow-unsupported": { type: "boolean", default: false },
      },
    });
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot read the parameters: ${problem}. Use ${usage}.`, { cause: error });
  }
}

async function play(request: Request, print: (line: string) => void): Promise<number> {
  const reports: GoldenFileReport[] = [];
  for await (const report of request.suite.run(request.folder, { data: request.data })) {
    reports.push(report);
    print(describeReport(report));
  }
  if (reports.length === 0) {
    throw new ConfigurationError(
      `Cannot run suite "${request.suite.name}": "${request.folder}" holds none of its golden files; name the folder that has them.`,
    );
  }
  for (const line of describeFailures(reports)) print(line);
  const total = (count: (report: GoldenFileReport) => number): number =>
    reports.reduce((sum, report) => sum + count(report), 0);
  const unsupported = total((report) => report.unsupported);
  const failed = total((report) => report.failed) + (request.allowUnsupported ? 0 : unsupported);
  if (unsupported > 0) {
    const verdict = request.allowUnsupported ? "allowed" : "counted as failures; --allow-unsupported permits them";
    print(`\n${unsupported} not supported yet (${verdict})`);
  }
  print(`\n${total((report) => report.passed)} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
}

function describeReport(report: GoldenFileReport): string {
  const parts = [`${report.passed} passed`];
  if (report.failed > 0) parts.push(`${report.failed} failed`);
  if (report.unsupported > 0) {
    parts.push(`${report.unsupported} not supported yet (${report.unsupportedReason ?? "no reason given"})`);
  }
  return `${report.file}: ${parts.join(", ")}`;
}

function* describeFailures(reports: readonly GoldenFileReport[]): Iterable<string> {
  const failures = reports.flatMap((report) => report.failures.map((failure) => ({ file: report.file, ...failure })));
  if (failures.length === 0) return;
  const failed = reports.reduce((sum, report) => sum + report.failed, 0);
  yield `\nThe first ${Math.min(shownFailures, failures.length)} of ${failed} failures:`;
  for (const { file, id, difference } of failures.slice(0, shownFailures)) {
    yield `\n${file} › ${id}`;
    yield difference.replace(/^/gm, "    ");
  }
}
