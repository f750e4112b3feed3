// Unpaired surrogates everywhere that a run has text: ids, utterances, results, arguments. The text
// that the page shows, links to and exports is well-formed, and every link leads to its target.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { exportView } from "../../../dist/api/view.js";
import { createFileRunStore, openRunFolder } from "../../../dist/store/index.js";

/** @typedef {import("playwright-core").Page} Page */
/** @typedef {{ open(url: string): Promise<Page>, expect(name: string, holds: boolean, detail?: string): void }} Checks */

const half = "first \ud83d second \udc00 reversed \ude00\ud83d, 100% #a?b=c/d&e";

/** @param {string} from @param {string} folder */
async function halfRun(from, folder) {
  const reader = openRunFolder(from);
  const manifest = await reader.manifest();
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  let at = 0;
  for await (const episode of reader.episodes()) {
    const events = episode.events.map((event) => {
      if (event.type === "user-line") return { ...event, line: { ...event.line, text: half } };
      if (event.type === "tool-result") return { ...event, result: { ...event.result, text: half } };
      if (event.type !== "decision") return event;
      const toolCalls = event.action.toolCalls.map((call) => ({ ...call, argumentsText: `{"note": "${half}"}` }));
      return { ...event, action: { ...event.action, text: half, content: half, toolCalls } };
    });
    const task = { ...episode.task, id: `${half} task`, instruction: half };
    await store.append({ ...episode, id: `${half} ${at}`, groupId: `${half} group`, sampleIndex: at, task, events });
    if (++at === 2) break;
  }
  await store.close(manifest);
}

const shownTexts = `[
  document.documentElement.outerHTML, location.href, document.title,
  ...Array.from(document.querySelectorAll("a[href]"), (link) => link.getAttribute("href") ?? ""),
]`;

/**
 * Strings of the page: its text, address, title and links.
 *
 * @param {Page} page @returns {Promise<string[]>}
 */
const textsOf = (page) => page.evaluate(shownTexts);

/** @param {string} text */
const isFine = (text) => !/\p{Surrogate}/u.test(text) && (!text.startsWith("#") || !/%(?![0-9A-F]{2})/i.test(text));

/** Text around the first unpaired surrogate. @param {string} text */
const about = (text) => JSON.stringify(/[^]{0,60}\p{Surrogate}[^]{0,20}/u.exec(text)?.[0] ?? text.slice(0, 200));

/**
 * @param {Checks} checks
 * @param {{ from: string, folder: string, file: string, serve: (folder: string) => Promise<string> }} places
 */
export async function halfCharacters(checks, { from, folder, file, serve }) {
  await halfRun(from, folder);
  const url = await serve(folder);
  await exportView({ sources: [folder], file });
  const bytes = readFileSync(file);
  checks.expect("half characters: the exported file is UTF-8", Buffer.from(bytes.toString("utf8")).equals(bytes));
  for (const [name, base] of [
    ["served", url],
    ["exported", pathToFileURL(file).href],
  ]) {
    const seen = new Set([""]);
    let shown = "";
    let titles = "";
    for (const hash of seen) {
      const page = await checks.open(`${base}${hash === "" ? "#/0" : hash}`);
      await page.locator("main, #app > *").first().waitFor();
      await page.waitForLoadState("networkidle");
      const texts = await textsOf(page);
      const wrong = texts.find((text) => !isFine(text));
      if (wrong !== undefined) checks.expect(`half characters, ${name}, ${hash}`, false, about(wrong));
      const text = await page.innerText("body");
      if (/Cannot find/.test(text))
        checks.expect(`half characters, ${name}: ${hash} leads somewhere`, false, text.slice(0, 200));
      shown += text;
      titles += texts[2] ?? "";
      for (const link of texts.slice(3)) if (link.startsWith("#/") && seen.size < 25) seen.add(link);
      await page.context().close();
    }
    checks.expect(`half characters, ${name}: pages and their links`, seen.size > 4, `${seen.size} pages`);
    checks.expect(`half characters, ${name}: titles`, titles.includes("⟨U+D83D⟩"));
    checks.expect(`half characters, ${name}: they are shown`, shown.includes("⟨U+D83D⟩") && shown.includes("⟨U+DC00⟩"));
  }
  const page = await checks.open(`${url}#/0`);
  await page.locator("form[role=search] input").first().fill('"second \udc00"');
  await page.locator("form[role=search] input").first().press("Enter");
  await page.waitForFunction('location.hash.includes("text=")');
  const [, address = ""] = await textsOf(page);
  checks.expect("half characters: a search is an address", isFine(new URL(address).hash), address);
  await page.context().close();
}
