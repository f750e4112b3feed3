import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { endOfText, programError } from "./program-error.ts";

/** The standard error of this Node version for a program of one module. */
function node(source: string): string {
  return spawnSync(process.execPath, ["--input-type=module", "--eval", source], { encoding: "utf8" }).stderr;
}

describe("programError() finds what this Node prints of", () => {
  it.each([
    ["an error", 'throw new TypeError("no world")', "TypeError: no world"],
    ["a rejection", 'async function f() { throw new RangeError("too far"); } await f();', "RangeError: too far"],
    ["an error of its own", 'class Gone extends Error { name = "Gone" } throw new Gone("it left")', /Gone: it left$/],
    ["an error with properties", 'throw Object.assign(new Error("a\\nb"), { code: "E_X" })', "Error: a"],
    ["a cause", 'throw new Error("no", { cause: new Error("why") })', "Error: no (Error: why)"],
    [
      "a module that is missing",
      'import "nowhere-package";',
      /ERR_MODULE_NOT_FOUND.*Cannot find package 'nowhere-package'/,
    ],
    ["a syntax error", "const x = ;", "SyntaxError: Unexpected token ';'"],
    ["an assertion", 'import a from "node:assert"; a.deepEqual({ a: 1 }, { a: 2 });', /^AssertionError/],
    ["its own last line", 'console.error("giving up: no key"); process.exit(3);', "giving up: no key"],
    ["an error that it logged", 'console.error(new Error("no key")); process.exit(3);', "Error: no key"],
    ["nothing", "process.exit(1);", ""],
  ])("%s", (_, source, expected) => {
    const line = programError(node(source));
    expect(line).toEqual(typeof expected === "string" ? expected : expect.stringMatching(expected));
    expect(line).not.toContain("Node.js v");
  });
});

describe("programError() finds what other runtimes print:", () => {
  it.each([
    [
      "Python",
      'Traceback (most recent call last):\n  File "a.py", line 2, in <module>\n    f()\n    ~^^\nGone: it left\nsecond line\n',
      "Gone: it left",
    ],
    [
      "Python's causes",
      'Traceback (most recent call last):\n  File "a"\nZeroDivisionError: x\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "a"\nopenai.APIError: no\n',
      "openai.APIError: no",
    ],
    [
      "Go",
      "panic: no world\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4 +0x2c\nexit status 2\n",
      "panic: no world",
    ],
    [
      "Rust",
      "thread 'main' (12) panicked at src/main.rs:2:5:\nno world\nnote: run with `RUST_BACKTRACE=1` environment variable\n",
      "thread 'main' (12) panicked at src/main.rs:2:5: no world",
    ],
    [
      "Java",
      'Exception in thread "main" java.lang.IllegalStateException: no world\n\tat Main.main(Main.java:3)\n',
      'Exception in thread "main" java.lang.IllegalStateException: no world',
    ],
    [
      "npm",
      'npm error code EX\nnpm error Missing script: "agent"\nnpm error\nnpm error To see a list of scripts, run:\nnpm error   npm run\nnpm error A complete log of this run can be found in: /x.log\n',
      'npm error Missing script: "agent"',
    ],
    ["a shell", "sh: 1: my-agent: not found\n", "sh: 1: my-agent: not found"],
    ["colours", "\u001b[31mError: no\u001b[39m\n    at f (a.js:1:1)\n", "Error: no"],
  ])("%s", (_, text, expected) => {
    expect(programError(text)).toBe(expected);
    expect(programError(text.replaceAll("\n", "\r\n"))).toBe(expected);
  });
});

it("programError() reads a megabyte of anything in a moment, and cuts a long line", () => {
  const begun = performance.now();
  for (const part of [
    "Traceback (most recent call last):\n  a\n",
    "    at x\n",
    "^\n\n",
    "Error: x",
    " + Exception Group ",
  ]) {
    programError(part.repeat(1_000_000 / part.length));
  }
  expect(performance.now() - begun).toBeLessThan(5000);
  expect(programError(`Error: ${"x".repeat(9000)}`)).toHaveLength(502);
});

it("endOfText() keeps the last lines, and says that there were more", () => {
  expect(endOfText("a\nb\n")).toBe("a\nb");
  expect(endOfText("a\nb\nc\n", { lines: 2 })).toBe("…\nb\nc");
  expect(endOfText("abc\n", { length: 2 })).toBe("…\nbc");
});
