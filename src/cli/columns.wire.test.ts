// Every command in a terminal of 80 columns: no line is longer, and no word is broken.

import { expect, test } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";

const columns = 80;

/** Command lines, with the exit code of each if it is not 0. */
const commands: readonly (readonly [string, number?])[] = [
  ["--help"],
  ...[
    ..."start example rollout eval inspect compare view export merge export-model prepare train".split(" "),
    ..."engine serve worker gateway env-server init doctor bench schema tokens".split(" "),
  ].map((name) => [`${name} --help`] as const),
  [
    "rollout --env bookshop --engine embedded --model bookshop-nano --tasks 0-11 --group-size 2 --out nano --write-samples",
  ],
  ["rollout --out nano --resume nano", 2],
  ["inspect nano"],
  ["inspect nano --outcome failing"],
  ["inspect nano 1"],
  ["inspect nano 1 --tokens"],
  ["tokens nano 1"],
  ["export nano --format verifiers --output rows.jsonl"],
  ["inspect rows.jsonl"],
  ["inspect rows.jsonl 1"],
  ["eval --env bookshop --engine embedded --model bookshop-nano --tasks 0-11 --trials 2 --out one"],
  ["eval --env bookshop --engine expert --tasks 0-11 --trials 2 --out other"],
  ["eval --from one other"],
  ["compare one other nano --all"],
  ["train --minutes 0.1 --groups 2 --steps 1 --out trained"],
  ["doctor template bookshop-nano"],
  ["doctor environment bookshop"],
  ["bench trainer --steps 2 --step-seconds 0.1 --batch-groups 2 --concurrency 8"],
  ["init environment a-shop-with-a-name-that-is-rather-long-for-the-name-of-a-shop"],
  ["example"],
  ["inspect nothing", 2],
  ["rollout --envv bookshop", 2],
  ["doctor environment --env bookshop", 2],
  ["rollout --env bookshop --engine embedded --model bookshop-nano --tasks 0-1 --renderer qwen9 --out none", 2],
];

test.each([{ isTTY: true }, { isTTY: false }])(
  "every command fits a terminal of 80 columns (%j)",
  async ({ isTTY }) => {
    // The variable sets the width of lines in a pipe.
    const cli = await createTestCli(isTTY ? {} : { COLUMNS: String(columns) }, isTTY ? { columns } : {});
    const wide: string[] = [];
    const codes: string[] = [];
    for (const [line, expected = 0] of isTTY ? commands : commands.slice(0, 26)) {
      const { code, stdout, stderr } = await cli.run(...line.split(" "));
      if (code !== expected) codes.push(`${line}: ${code} ${stderr.slice(0, 300)}`);
      for (const printed of `${stdout}\n${stderr}`.split("\n")) {
        // A longer word has a line of its own; JSON is data.
        if (printed.length > columns && /[^ ] +[^ ]/.test(printed) && !/^[{"]/.test(printed))
          wide.push(`${line}: ${printed}`);
      }
    }
    expect(codes).toEqual([]);
    expect(wide).toEqual([]);
  },
  300_000,
);
