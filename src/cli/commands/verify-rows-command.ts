// `verify-rows`: parses flags, calls verifyRows(), prints.

import { Command } from "commander";

import { verifyRows } from "../../api/verify-rows.ts";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { jsonOption, writeJson } from "../flags.ts";

type VerifyRowsFlags = { readonly run?: readonly string[]; readonly complete?: true; readonly json?: true };

/** Faults that are printed. */
const mostPrinted = 20;

export function verifyRowsCommand(run: RunCommand): Command {
  return new Command("verify-rows")
    .summary("prove that exported rows hold exactly what was sampled")
    .description(
      "Compares every row with the record of its run, in one pass: token ids, masks, logprobs, weight versions and the digests of " +
        "its turns. A changed value, a row of another run and a duplicated row are named with their line, row, turn and token.",
    )
    .argument("<file>", "rows that export, a rollout or the service wrote: JSON lines, or Parquet (*.parquet)")
    .option("--run <folder...>", "folder of the run; several if the rows are of several runs")
    .option("--complete", "also report samples of the run that are in no row")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Exit codes: 0 all rows hold what was sampled; 1 some do not; 2 a file or run to correct; 130 interrupted.

Examples:
  $ npx trainable-agents verify-rows train.jsonl --run runs/one
  $ npx trainable-agents verify-rows train.parquet --run runs/one runs/two --complete`,
    )
    .action(async (file: string, flags: VerifyRowsFlags) => run((context) => verify(file, flags, context)));
}

async function verify(file: string, flags: VerifyRowsFlags, context: CliContext): Promise<number> {
  const { cwd, drain, cancel, stdout, stderr } = context;
  if (flags.run === undefined) {
    throw new ConfigurationError(
      `Cannot verify "${file}": no run is named; give --run <folder>, the run whose rows these are.`,
    );
  }
  const result = await verifyRows({
    file,
    run: flags.run,
    complete: flags.complete === true,
    cwd,
    drain,
    signal: cancel,
  });
  if (result === null) {
    stderr.write("Interrupted: the rows are not verified.\n");
    return exitCodes.interrupted;
  }
  const { format, rows, compared, tokens, hasTokens, faultCount, faults } = result;
  const code = faultCount === 0 ? exitCodes.done : exitCodes.failed;
  if (flags.json === true) {
    writeJson(result, context);
    return code;
  }
  for (const { message } of faults.slice(0, mostPrinted)) stdout.write(`${oneMessage(message)}\n`);
  if (faultCount > mostPrinted) stdout.write(`... and ${formatCount(faultCount - mostPrinted)} more\n`);
  const what = `${formatCount(rows)} rows of ${format ?? "no format"}`;
  const checked = hasTokens
    ? `${formatCount(compared)} samples, ${formatCount(tokens)} tokens`
    : "digests only, because they hold text";
  const outcome = faultCount === 0 ? "hold what was sampled" : `have ${formatCount(faultCount)} faults`;
  stdout.write(`${what} ${outcome} (${checked})\n`);
  return code;
}
