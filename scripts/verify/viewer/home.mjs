// The list of runs below a folder, in a browser: 1,000 runs with a training and a log among them, filtered, ticked and compared by keyboard.

import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { exportRun } from "../../../dist/index.js";

/**
 * Copies of a run's small files, a day apart; the copies have no episodes.
 *
 * @param {string} run @param {string} folder @param {number} count
 */
export function copiedRuns(run, folder, count) {
  const manifest = /** @type {object} */ (JSON.parse(readFileSync(join(run, "run.json"), "utf8")));
  for (let at = 0; at < count; at++) {
    const copy = join(folder, `run-${String(at).padStart(4, "0")}`);
    mkdirSync(copy, { recursive: true });
    cpSync(join(run, "index.jsonl"), join(copy, "index.jsonl"));
    writeFileSync(join(copy, "episodes.jsonl"), "");
    const startedAt = new Date(Date.UTC(2024, 0, 1 + at)).toISOString();
    writeFileSync(join(copy, "run.json"), JSON.stringify({ ...manifest, startedAt }));
  }
}

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {{ folder: string, run: string, other: string, training: string, serve: (...sources: string[]) => Promise<string> }} parts
 */
export async function home(checks, { folder, run, other, training, serve }) {
  copiedRuns(run, join(folder, "old"), 1000);
  for (const [name, from] of /** @type {const} */ ([
    ["one", run],
    ["two", other],
    ["training", training],
  ])) {
    cpSync(from, join(folder, name), { recursive: true });
  }
  await exportRun({ runs: [run], format: "inspect", output: join(folder, "log.json") });
  mkdirSync(join(folder, "cut"));
  writeFileSync(join(folder, "cut", "run.json"), '{"format": 4,');
  const url = await serve(folder);
  await checks.page("home", url, "", { see: "1,005 runs below" });
  await checks.page("home, filtered", url, "#/?filter=training", { see: "1 of 1,005 runs" });
  await checks.page("home, a run", url, "#/one", { see: "pass" });
  await checks.page("home, a log", url, "#/log.json", { see: "no tokens recorded" });
  await checks.page("home, no such run", url, `#/${encodeURIComponent("../../etc")}`, { see: "Cannot find run" });
  await checks.page("home, compared", url, "#/compare?a=one&b=two", { see: "two against one" });
  const page = await checks.open(url);
  await page.getByRole("link", { name: "one", exact: true }).waitFor();
  const text = async () => String(await page.evaluate("document.body.innerText"));
  const first = await text();
  checks.expect("home: costs, rates with their interval and reasons are on the first screen", /\d+ % \[\d+ to \d+\]/.test(first) && first.includes("$0.00") && /was cut/.test(first)); // prettier-ignore
  const curve = await page.getByRole("img", { name: /pass rate of training, .* at first/ }).count();
  checks.expect("home: a training has its curve", curve === 1, `${curve} curves`);
  // Everything by keyboard: the filter, both ticks and the comparison.
  await page.keyboard.press("/");
  await page.keyboard.type("old 0999");
  await page.keyboard.press("Enter");
  await page.getByText("1 of 1,005 runs").waitFor();
  await page.getByRole("button", { name: "show all" }).press("Enter");
  await page.getByRole("checkbox", { name: "compare one" }).press("Space");
  await page.getByText("is the baseline").waitFor();
  await page.getByRole("checkbox", { name: "compare two" }).press("Space");
  await page.getByText("two against one").waitFor();
  checks.expect(
    "home: which tasks the second run loses, after two ticks",
    /lost[^]*bookshop:train:\d+/.test(await text()),
  );
  await page.getByRole("link", { name: /whole comparison/ }).press("Enter");
  await page.waitForURL(/#\/compare\?a=one&b=two/);
  await page.getByRole("link", { name: "runs", exact: true }).press("Enter");
  await page.getByRole("link", { name: "training", exact: true }).click();
  await page.getByText("Before and after, on the same held-out tasks").waitFor();
  checks.expect("home: whether a training helped, and on which kind, after one click", true);
  await page.context().close();
}
