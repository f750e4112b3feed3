// Every regular expression of the sources is run on texts made to slow it down: each of its
// repetitions long, the text leading up to it repeated, an end that does not match. An expression
// that takes more than linear time on any of them fails, unless it is listed below with the bound
// of its text.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

import { parseSync } from "oxc-parser";
import { expect, it } from "vitest";

import { formatExamples } from "../src/parsers/formats/format-examples.test-helper.ts";
import { parsePattern, type PatternNode } from "../src/lib/parse-pattern.ts";

/**
 * Repetitions of a text: at this length quadratic work takes far longer than the limit, linear work
 * a millisecond.
 */
const repetitions = 20_000;
const mostMs = 250;

/**
 * Files whose expressions only run on short texts of our own, of the command line, or of a checkout
 * that the user names, or are not run.
 */
const ownTexts: Readonly<Record<string, string>> = {
  "src/environments/tau2-bench/checkout/": "sources of a checkout",
  "src/environments/tau2-bench/banking/tool-docs.ts": "docstrings of a checkout",
  "src/environments/bookshop/expert/records.ts": "what our own world answers the scripted expert",
  "src/environments/tau2-bench/telecom-expert.ts": "what our own world answers the scripted expert",
  "src/learner/pretraining/": "texts that we generate",
  "src/lib/linear-pattern.ts": "patterns that are run only where they are plain",
  "src/parsers/response-template/python-pattern.ts":
    "patterns that are compiled to be checked; lib/linear-search.ts runs them",
};

type Expression = { readonly place: string; readonly source: string; readonly flags: string };

function literals(): Expression[] {
  const files = execFileSync("git", ["ls-files", "src/*.ts", "viewer/src/*.ts*"], { encoding: "utf8" }).split("\n");
  return files
    .filter((file) => file !== "" && !/\.test(-helper)?\.tsx?$/.test(file))
    .flatMap((file) => {
      const text = readFileSync(file, "utf8");
      const found: Expression[] = [];
      const visit = (node: unknown): void => {
        if (Array.isArray(node)) return node.forEach(visit);
        if (typeof node !== "object" || node === null) return;
        const { type, regex, start } = node as { type?: string; regex?: { pattern: string; flags: string } | null; start: number }; // prettier-ignore
        if (type === "Literal" && regex !== undefined && regex !== null) {
          const line = text.slice(0, start).split("\n").length;
          found.push({ place: `${file}:${line}`, source: regex.pattern, flags: regex.flags });
        }
        Object.values(node).forEach(visit);
      };
      visit(parseSync(file, text).program);
      return found;
    });
}

/**
 * Places where the built modules construct expressions: module, line and column of each `new
 * RegExp(...)`.
 */
function constructions(): string[] {
  const files = execFileSync("git", ["ls-files", "src/*.ts"], { encoding: "utf8" }).trim().split("\n");
  return files
    .filter((file) => !/\.test(-helper)?\.ts$/.test(file) && !file.startsWith("src/testing/"))
    .flatMap((file) => {
      const module = file.slice("src/".length).replace(/ts$/, "js");
      if (!existsSync(`dist/${module}`) || !readFileSync(file, "utf8").includes("RegExp(")) return [];
      const text = readFileSync(`dist/${module}`, "utf8");
      const sites: string[] = [];
      const visit = (node: unknown): void => {
        if (Array.isArray(node)) return node.forEach(visit);
        if (typeof node !== "object" || node === null) return;
        const { type, callee, start } = node as { type?: string; callee?: { name?: string }; start: number };
        if ((type === "NewExpression" || type === "CallExpression") && callee?.name === "RegExp") {
          const lines = text.slice(0, start).split("\n");
          sites.push(`${module}:${lines.length}:${(lines.at(-1) ?? "").length + 1}`);
        }
        Object.values(node).forEach(visit);
      };
      visit(parseSync(module, text).program);
      return sites;
    });
}

/**
 * Expressions that each construction builds from representative arguments; see
 * drive-constructions.mjs.
 */
function constructed(sites: readonly string[]): Expression[] {
  const innerQuotes = ['<|tool_call_start|>[get_weather(city="a "b" c")]<|tool_call_end|>'];
  const input = JSON.stringify({
    modules: [...new Set(sites.map((site) => site.split(":")[0]))],
    formats: [...Object.entries(formatExamples), ["lfm2", innerQuotes]],
  });
  const options = { encoding: "utf8", input, maxBuffer: 2 ** 28 } as const;
  const made = JSON.parse(execFileSync(process.execPath, ["tests/patterns/drive-constructions.mjs"], options)) as readonly (Omit<Expression, "place"> & { readonly site: string })[]; // prettier-ignore
  return made.map(({ site, ...rest }) => ({ ...rest, place: `dist/${site}` }));
}

const usual = [
  "a",
  "A",
  "0",
  " ",
  "\n",
  "\t",
  '"',
  "'",
  ".",
  "-",
  "_",
  "#",
  "$",
  "/",
  "\\",
  ":",
  "=",
  "{",
  "<",
  "…",
  "é",
  "e",
  "x",
];

/** A few characters of a set, first those that other sets of the expression may have too. */
function charactersOf(source: string, flags: string): readonly string[] {
  const pattern = new RegExp(`^(?:${source})$`, flags.replaceAll(/[gy]/g, ""));
  const own = Array.from(source + source.toLowerCase());
  return [...new Set([...usual, ...own])].filter((character) => pattern.test(character));
}

function exampleOf(node: PatternNode, flags: string): string {
  switch (node.type) {
    case "set": {
      const [first = ""] = node.source.length === 1 ? [node.source] : charactersOf(node.source, flags);
      return first;
    }
    case "sequence":
      return node.parts.map((part) => exampleOf(part, flags)).join("");
    case "choice":
      return exampleOf(node.options[0]!, flags);
    case "group":
      return exampleOf(node.body, flags);
    case "repeat":
      return exampleOf(node.body, flags).repeat(Math.max(1, Math.min(node.min, 3)));
    case "edge":
    case "look":
      return "";
    default:
      return node satisfies never;
  }
}

/** Texts that lead up to each long repetition, and texts that it repeats. */
function attacksOn(node: PatternNode, flags: string, before: string): { before: string; pump: string }[] {
  switch (node.type) {
    case "set":
    case "edge":
      return [];
    case "sequence":
      return node.parts.flatMap((part, at) => {
        const leading = before + node.parts.slice(0, at).map((one) => exampleOf(one, flags)).join(""); // prettier-ignore
        return attacksOn(part, flags, leading);
      });
    case "choice":
      return node.options.flatMap((option) => attacksOn(option, flags, before));
    case "look":
    case "group":
      return attacksOn(node.body, flags, before);
    case "repeat": {
      const inner = attacksOn(node.body, flags, before);
      if (node.max < 100) return inner;
      const example = exampleOf(node.body, flags);
      const pumps = node.body.type === "set" ? charactersOf(node.body.source, flags).slice(0, 8) : [example];
      const all = [...pumps, ...(before === "" ? [] : [before, before + example])];
      return [...inner, ...all.map((pump) => ({ before, pump }))];
    }
    default:
      return node satisfies never;
  }
}

/** One expression with the texts that attack it. */
type Attacked = Expression & { readonly attacks: readonly { readonly before: string; readonly pump: string }[] };

/**
 * Milliseconds of processor time of the slowest text of each expression, measured in a process of
 * its own: wall-clock time would include the work of other tests.
 */
function slowest(expressions: readonly Attacked[]): { readonly ms: number; readonly text: string }[] {
  const program = `
    const { createContext, runInContext } = require("node:vm");
    const { expressions, repetitions, mostMs } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
    process.stdout.write(JSON.stringify(expressions.map(({ source, flags, attacks }) => {
      const context = createContext({ pattern: new RegExp(source, flags), text: "" });
      const time = (text) => {
        context.text = text;
        const start = process.cpuUsage();
        try {
          runInContext("pattern.global ? text.match(pattern) : pattern.exec(text)", context, { timeout: 40 * mostMs });
        } catch {
          return 1e9;
        }
        const { user, system } = process.cpuUsage(start);
        return (user + system) / 1000;
      };
      let worst = { ms: 0, text: "" };
      for (const { before, pump } of attacks)
        for (const end of ["", "\\u0001", "\\n\\u0001"]) {
          const text = before + pump.repeat(repetitions) + end;
          // Compilation and garbage make some measurements long, not all.
          let ms = time(text);
          for (let more = 0; ms > mostMs && ms < 1e9 && more < 6; more++) ms = Math.min(ms, time(text));
          if (ms > worst.ms) worst = { ms, text: JSON.stringify(before + pump) };
          if (ms > mostMs) return worst;
        }
      return worst;
    })));`;
  const input = JSON.stringify({ expressions, repetitions, mostMs });
  return JSON.parse(execFileSync(process.execPath, ["-e", program], { encoding: "utf8", input, maxBuffer: 2 ** 28 })) as { ms: number; text: string }[]; // prettier-ignore
}

const sites = constructions();
const made = constructed(sites);

it("every expression that is made of parts is among those that are attacked", () => {
  const reached = new Set(made.map(({ place }) => place));
  const missed = sites.filter((site) => !reached.has(`dist/${site}`));
  expect(sites.length).toBeGreaterThan(60);
  expect(missed, "add a call that makes it to tests/patterns/drive-constructions.mjs").toEqual([]);
});

it("every regular expression takes linear time", () => {
  const unique = new Map([...literals(), ...made].map((one) => [`/${one.source}/${one.flags}`, one]));
  const attacked = [...unique.values()]
    .filter(
      ({ place }) =>
        !Object.keys(ownTexts).some((path) => place.replace(/^dist/, "src").startsWith(path.replace(/ts$/, ""))),
    )
    .map((one) => ({
      ...one,
      attacks: attacksOn(parsePattern(one.source.replaceAll(/\\[1-9]/g, ""), one.flags), one.flags, ""),
    }));
  const times = slowest(attacked);
  const slow = attacked.flatMap(({ place, source }, at) => {
    const { ms, text } = times[at]!;
    return ms > mostMs ? [`${place} /${source.slice(0, 100)}/ takes ${ms.toFixed(0)} ms on ${text.slice(0, 60)}`] : [];
  });
  expect(unique.size).toBeGreaterThan(400);
  expect(slow.join("\n")).toBe("");
}, 300_000);
