// `npm run verify -- viewer [--quick]`: the viewer's page in a real browser. Every page of real runs, a killed one, one of 20,000 episodes
// and a hostile one, in both themes and at 390 points, examined by axe; five questions with a budget of clicks; exported files.

import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { exportView, view } from "../../../dist/index.js";
import { openBrowser } from "./browser.mjs";
import { Checks } from "./checks.mjs";
import { episodePage, partingGroup, runPage } from "./episode.mjs";
import { halfCharacters } from "./half-characters.mjs";
import { home } from "./home.mjs";
import { markedEpisodes } from "./marks.mjs";
import {
  bookshopRun,
  foreignFiles,
  hostileRun,
  largeRun,
  sampledRun,
  startRun,
  tauRun,
  trainerLogprobs,
  trainingRun,
} from "./runs.mjs";
import { trainings } from "./trainings.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @param {{ quick: boolean }} options @returns {Promise<number>} An exit code. */
export async function verifyViewer({ quick }) {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-viewer-"));
  const browser = await openBrowser();
  const at = (/** @type {string} */ name) => join(work, name);
  /** @type {(() => Promise<unknown>)[]} */
  const closing = [];
  const checks = new Checks(browser);
  const open = async (/** @type {Parameters<typeof view>[0]} */ options) => {
    const viewer = await view({ ...options, listen: "127.0.0.1:0" });
    closing.push(() => viewer.close());
    return viewer.url;
  };
  const serve = (/** @type {string[]} */ ...sources) => open({ sources });
  try {
    await bookshopRun(at("book"), { noise: 0.4 });
    await trainingRun(at("train"));
    const book = await serve(at("book"));
    if (quick) {
      await checks.page("overview", book, "#/0", { see: "pass" });
      await checks.page("tokens", book, "#/0/episode/3?t=1", { see: "Mask in order" });
      await checks.page("training", await serve(at("train")), "#/0", {
        see: "Logprobs of sampling and training agree",
      });
      return checks.tell();
    }
    await bookshopRun(at("worse"), { noise: 0.9 });
    await sampledRun(at("sampled"));
    await fiveQuestions(checks, {
      run: await serve(at("sampled")),
      two: await serve(at("book"), at("worse")),
      train: await serve(at("train")),
    });
    await keysAndSearch(checks, book);
    const sampled = await serve(at("sampled"));
    await runPage(checks, sampled);
    await episodePage(checks, sampled);
    await partingGroup(checks, sampled, await mixedGroup(sampled));
    await home(checks, { folder: at("many"), run: at("book"), other: at("worse"), training: at("train"), serve });
    await markedEpisodes(checks, { from: at("book"), folder: at("marked"), open });
    await trainings(checks, { training: at("train"), folder: at("longer"), serve });
    await trainerLogprobs(at("sampled"), at("trainer.jsonl"));
    const overlay = { sources: [at("sampled")], logprobs: at("trainer.jsonl") };
    await trainer(checks, { url: await open(overlay), overlay, file: at("trainer.html") });
    if ((await tauRun(at("tau"))) === null) process.stdout.write("skipped: τ-bench, whose data is not in ../shared\n");
    else {
      const tau = await serve(at("tau"));
      await checks.page("tau overview", tau, "#/0", { see: "Not as the task expects them" });
      await checks.page("tau episode", tau, "#/0/episode/1", { see: "expected" });
      await checks.page("tau tokens", tau, "#/0/episode/1?t=1", { see: "Mask in order" });
    }
    const kill = await startRun(at("killed"));
    const killed = await serve(at("killed"));
    await followed(checks, killed, kill).finally(() => void kill());
    await checks.page("killed", killed, "#/0", { see: "its process is gone" });
    await checks.page("killed episode", killed, "#/0/episode/1", { see: "turn 0" });
    await large(checks, { from: at("book"), folder: at("large"), serve });
    await hostile(checks, { from: at("book"), folder: at("hostile"), serve, file: at("hostile.html") });
    await halfCharacters(checks, { from: at("book"), folder: at("half"), serve, file: at("half.html") });
    await exported(checks, at);
    await foreign(checks, await foreignFiles(at("sampled"), at), serve);
    await everyPage(checks, {
      book,
      two: await serve(at("book"), at("worse")),
      train: await serve(at("train")),
      sampled,
    });
    return checks.tell();
  } finally {
    await browser.close();
    for (const close of closing) await close();
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** @param {Checks} checks @param {{ book: string, two: string, train: string, sampled: string }} urls */
async function everyPage(checks, { book, two, train, sampled }) {
  await checks.page("overview", book, "#/0", { see: "masks in order" });
  await checks.page("filter", book, "#/0?where=reward%20%3C%201", { see: "show all" });
  await checks.page("search", book, "#/0?text=order", { see: "with “order”" });
  await checks.page("tasks", book, "#/0/tasks", { see: "Tasks, the least solved first" });
  await checks.page("episode", book, "#/0/episode/36", { see: "turn 0" });
  await checks.page("tokens", sampled, "#/0/episode/3?t=1", { see: "Mask in order" });
  await checks.page("fault", book, "#/0?kind=fault&reason=agent", { see: "with fault agent" });
  await checks.page("group", book, "#/0/group/bookshop%3Atrain%3A1", { see: "episodes of one task" });
  await checks.page("compare", two, "", { see: "worse against book" });
  await checks.page("training", train, "", { see: "Logprobs of sampling and training agree" });
  await checks.page("nothing there", book, "#/0/episode/9999", { see: "Cannot find episode" });
}

/**
 * A group of which some episodes pass: the small model passes some tasks always and some never.
 *
 * @param {string} url @returns {Promise<string>}
 */
async function mixedGroup(url) {
  const { tasks } = /** @type {{ tasks: { groupId: string, passed: number, graded: number }[] }} */ (
    await (await fetch(`${url}api/tasks?run=0&count=100`)).json()
  );
  const found = tasks.find(({ passed, graded }) => passed > 0 && passed < graded);
  if (found === undefined) throw new Error("No group of the run has both passing and failing episodes.");
  return found.groupId;
}

/**
 * Each answer is on the screen after a limited number of clicks.
 *
 * @param {Checks} checks @param {{ run: string, two: string, train: string }} urls
 */
async function fiveQuestions(checks, { run, two, train }) {
  const ask = async (
    /** @type {string} */ question,
    /** @type {string} */ url,
    /** @type {readonly ((page: Page) => import("playwright-core").Locator)[]} */ clicks,
    /** @type {(text: string) => boolean} */ isAnswered,
  ) => {
    const page = await checks.open(url);
    for (const click of clicks) await click(page).click();
    let seen = "";
    for (let waited = 0; waited < 15_000 && !isAnswered(seen); waited += 100) {
      await page.waitForTimeout(100);
      seen = String(await page.evaluate("document.body.innerText"));
    }
    checks.expect(`${question} (${clicks.length} clicks)`, isAnswered(seen), seen.slice(0, 300));
    await page.context().close();
  };
  // Failing episodes depend on which end first: one near the 36th failure.
  const failing = await (
    await fetch(`${run}api/rows?count=100&run=0&where=${encodeURIComponent("reward < 1")}`)
  ).json();
  const { number } = /** @type {{ rows: { number: number }[] }} */ (failing).rows.toSorted(
    (a, b) => Math.abs(a.number - 36) - Math.abs(b.number - 36),
  )[0] ?? { number: 36 };
  const row36 = (/** @type {Page} */ page) => page.locator(`tr[data-number="${number}"]`);
  await ask(`why did episode ${number} fail`, run, [row36], (text) =>
    /The data is not as it should be|Not told|Broken/.test(text),
  );
  await ask(
    "is the mask right",
    run,
    [row36, (page) => page.getByRole("link", { name: "tokens", exact: true })],
    (text) => /Mask in order: every sampled token is trained exactly once/.test(text),
  );
  await ask("what got worse between these two runs", two, [], (text) => /against book: worse\.[\s\S]*lost/.test(text));
  await ask("is training healthy", train, [], (text) => /[Hh]ealthy/.test(text));
  await ask("which tasks never pass", run, [(page) => page.getByRole("link", { name: /never pass/ })], (text) =>
    /Tasks that never pass[\s\S]*bookshop:train:\d+/.test(text),
  );
}

/**
 * Polls until the condition holds: the page's policy does not allow the page itself to evaluate
 * strings.
 *
 * @param {Page} page @param {string} expression
 */
async function until(page, expression) {
  for (let waited = 0; waited < 30_000; waited += 50) {
    if ((await page.evaluate(expression)) === true) return;
    await page.waitForTimeout(50);
  }
  throw new Error(`This does not come to hold: ${expression}`);
}

/** @param {Checks} checks @param {string} book */
async function keysAndSearch(checks, book) {
  const page = await checks.open(`${book}#/0`);
  await page.locator("tr[data-number]").first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("36");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /^36 / }).waitFor();
  await page.keyboard.press("t");
  await page.getByText("Mask in order").waitFor();
  await page.keyboard.press("j");
  await until(
    page,
    "!/episode\\/36(\\?|$)/.test(location.hash) && location.hash.includes('t=1') && document.querySelector('.strip h1')?.textContent.startsWith('36 ') === false",
  );
  // Leads back only within a group, and chance decides which episode is the last of its group.
  const moved = /** @type {string} */ (await page.evaluate("location.hash"));
  await page.keyboard.press("k");
  await until(page, `location.hash !== ${JSON.stringify(moved)} && location.hash.includes('t=1')`);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await checks.accessible("keys", page);
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await until(page, "document.activeElement?.id === 'box'");
  await page.keyboard.type("reward < 1 and turns > 1");
  await page.keyboard.press("Enter");
  await page.getByText("show all").waitFor();
  await page.locator("#box").fill('"order"');
  await page.keyboard.press("Enter");
  await page.locator(".hits li").first().waitFor();
  await page.locator(".hits a").first().click();
  await page.locator(".entry").first().waitFor();
  checks.expect("keys, box and search", true);
  // The whole text of the tokens is in the page, and is copied without its labels.
  await page.goto(`${book}#/0/episode/1?t=1`);
  await page.locator(".chunk").first().waitFor();
  await page.evaluate("getSelection().selectAllChildren(document.querySelector('.token-text'))");
  const copied = /** @type {unknown} */ (
    await page.evaluate(
      "new Promise((done) => { document.addEventListener('copy', (event) => done(event.clipboardData.getData('text/plain')), { once: true }); document.querySelector('.token-text').dispatchEvent(new ClipboardEvent('copy', { bubbles: true, clipboardData: new DataTransfer() })) })",
    )
  );
  const whole = String(
    await page.evaluate("[...document.querySelectorAll('.chunk')].map((chunk) => chunk.textContent).join('')"),
  );
  checks.expect("tokens are copied as they are", copied === whole && whole.includes("<|im_start|>"));
  await page.context().close();
}

/**
 * A trainer's logprobs over the sampled ones: agreement, disagreement, missing values, and a line
 * of another row.
 *
 * @param {Checks} checks
 * @param {{ url: string, overlay: { sources: string[], logprobs: string }, file: string }} parts
 */
async function trainer(checks, { url, overlay, file }) {
  await checks.page("trainer, overview", url, "#/0", { see: "1 training row without a line that can be used" });
  await checks.page("trainer, tokens", url, "#/0/episode/1?t=1", { see: "Trainer's logprobs" });
  await checks.page("trainer, wrong length", url, "#/0/episode/3?t=1", { see: "nothing of the line is shown" });
  const sentence = "(document.querySelector('.overlay')?.textContent ?? '')";
  const page = await checks.open(`${url}#/0/episode/1?t=1`);
  await page.locator(".overlay").waitFor();
  const agreement = String(await page.evaluate(sentence));
  const [mean] = (/mean difference (\S+),/.exec(agreement) ?? []).slice(1).map(Number);
  checks.expect("trainer: the learner agrees with the engine", (mean ?? 1) < 1e-4, agreement);
  const marks = "[0, 1, 2, 3, 4].map((index) => CSS.highlights.get('p' + index)?.size ?? 0)";
  await page.goto(`${url}#/0/episode/2?t=1`);
  await until(page, `${sentence}.includes('not recorded for 1 trained token')`);
  const difference = "trainer's logprob differs by more than";
  await page.getByRole("button", { name: difference, pressed: true }).waitFor();
  await until(page, `${marks}.join() === "0,0,0,0,1"`);
  checks.expect("trainer: the token that is far away is coloured", true);
  const line = "document.querySelector('.token-line').textContent";
  await page.evaluate("[...CSS.highlights.get('p4')][0].startContainer.parentElement.scrollIntoView()");
  const place = "(({ x, y, width, height }) => [x + width / 2, y + height / 2])([...CSS.highlights.get('p4')][0].getBoundingClientRect())"; // prettier-ignore
  const [x, y] = /** @type {[number, number]} */ (await page.evaluate(place));
  await page.mouse.move(x, y);
  const first = String(await page.evaluate(line));
  checks.expect("trainer: its logprob stands beside the sampled one", / logprob -\d.* · trainer's logprob -9\.0000 \(-/.test(first), first); // prettier-ignore
  await page.locator(".token-text").focus();
  await page.keyboard.press("ArrowRight");
  const second = String(await page.evaluate(line));
  checks.expect("trainer: one that is not there is no zero", second.includes("trainer's logprob not recorded"), second);
  await page.getByRole("button", { name: "logprob below" }).click();
  await until(page, `${marks}.join() !== "0,0,0,0,1"`);
  await checks.accessible("trainer", page);
  await page.context().close();
  await exportView({ ...overlay, episode: "2", file });
  await checks.page("trainer, exported", pathToFileURL(file).href, "", { see: "turn 0" });
  const opened = await checks.open(`${pathToFileURL(file).href}#/0/episode/2?t=1`);
  await until(opened, `${sentence}.includes('not recorded for 1 trained token')`);
  await opened.context().close();
}

/**
 * Follows a run that is being written, until its process is killed: the open page shows new data,
 * requests nothing twice and contacts no other server.
 *
 * @param {Checks} checks @param {string} url @param {() => Promise<void>} kill
 */
async function followed(checks, url, kill) {
  const page = await checks.open(`${url}#/0`);
  await page.locator("tr[data-number]").first().waitFor();
  await page.evaluate("window.isSamePage = true");
  /** @type {Promise<void>[]} */
  const reading = [];
  /** @type {string[]} */
  const elsewhere = [];
  /** @type {{ after: number, oldest: number }[]} */
  const answers = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) elsewhere.push(request.url());
  });
  page.on("response", (response) => {
    if (!response.url().includes("/api/rows")) return;
    const read = async () => {
      const { rows } = /** @type {{ rows: { number: number }[] }} */ (await response.json());
      const after = Number(new URL(response.url()).searchParams.get("after") ?? 0);
      answers.push({ after, oldest: Math.min(...rows.map(({ number }) => number)) });
    };
    reading.push(read());
  });
  const newest = "Number(document.querySelector('tr[data-number]').dataset.number)";
  const start = Number(await page.evaluate(newest));
  await until(page, `${newest} > ${start + 3}`);
  checks.expect("a run in progress is live, and new rows appear", (await page.getByText("live").count()) > 0);
  await kill();
  await page.getByText("its process is gone").waitFor();
  const count = String(await page.evaluate("document.querySelector('.sentence').textContent"));
  await until(page, `document.querySelector('[role=status]').textContent.startsWith(${newest} + ' episode')`);
  await Promise.all(reading);
  checks.expect("the verdict says that its process is gone", /killed/.test(count), count);
  const areNew = answers.every(({ after, oldest }) => after > 0 && oldest > after);
  checks.expect("only new rows are fetched", areNew && answers.length > 0, JSON.stringify(answers));
  checks.expect("without a reload", (await page.evaluate("window.isSamePage")) === true);
  checks.expect("and from the viewer alone", elsewhere.length === 0, elsewhere.join(" "));
  await page.context().close();
}

/** @param {Checks} checks @param {{ from: string, folder: string, serve: (...sources: string[]) => Promise<string> }} parts */
async function large(checks, { from, folder, serve }) {
  await largeRun(from, folder, 20_000);
  const started = performance.now();
  const url = await serve(folder);
  await (await fetch(`${url}api/rows?run=0`)).text();
  const servedMs = performance.now() - started;
  checks.expect(
    `20,000 episodes: opened, newest rows served after ${servedMs.toFixed(0)} ms`,
    servedMs < 500,
    "500 ms are allowed",
  );
  const page = await checks.open(`${url}#/0`);
  await page.locator('tr[data-number="20000"]').waitFor();
  await page.getByText("masks in order,").waitFor({ timeout: 120_000 });
  const readMs = performance.now() - started;
  checks.expect(`20,000 episodes: read and masks checked after ${(readMs / 1000).toFixed(1)} s`, true);
  await page.goto(`${url}#/0?text=%22`);
  await page.goto(`${url}#/0?where=reward%20%3C%201%20and%20turns%20%3E%2010`);
  await page.getByText("show all").waitFor();
  await page.context().close();
  await checks.page("large", url, "#/0", { see: "20,000 episodes" });
}

/**
 * @param {Checks} checks
 * @param {{ from: string, folder: string, file: string, serve: (...sources: string[]) => Promise<string> }} parts
 */
async function hostile(checks, { from, folder, file, serve }) {
  let calls = 0;
  // A browser also reports blocked requests: only a socket shows the actual ones.
  const trap = createServer((_, outgoing) => {
    calls++;
    outgoing.end();
  });
  await new Promise((resolve) => trap.listen(0, "127.0.0.1", () => resolve(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (trap.address());
  await hostileRun(from, folder, `http://127.0.0.1:${port}`);
  const url = await serve(folder);
  await checks.page("hostile overview", url, "#/0", { see: "<script>fetch(" });
  await checks.page("hostile episode", url, "#/0/episode/1", { see: "<script>fetch(" });
  await checks.page("hostile, 5 MB", url, "#/0/episode/2", { see: "characters:" });
  await checks.page("hostile tokens", url, "#/0/episode/1?t=1", { see: "Mask in order" });
  await checks.page("hostile search", url, `#/0?text=${encodeURIComponent("<script>")}`, { see: "<script>" });
  await checks.page("hostile route", url, `#/0/episode/${encodeURIComponent(`<img src=http://127.0.0.1:${port}/x>`)}`, {
    see: "Cannot find episode",
  });
  await exportView({ sources: [folder], file });
  await checks.page("hostile, exported", pathToFileURL(file).href, "#/0/episode/1", { see: "<script>fetch(" });
  const page = await checks.open(`${url}#/0/episode/1`);
  await page.locator(".entry").first().waitFor();
  const elements = Number(
    await page.evaluate("document.querySelectorAll('#app script, #app img, #app iframe, #app svg, #app link').length"),
  );
  checks.expect("hostile content is text", elements === 0, `${elements} elements were made of it`);
  const shown = String(await page.evaluate("document.body.innerText"));
  checks.expect(
    "what cannot be seen is shown",
    ["⟨U+D83D⟩", "⟨U+202E⟩", "␀", "␛"].every((mark) => shown.includes(mark)),
  );
  await page.context().close();
  checks.expect("no connection reached the listening socket", calls === 0, `${calls} did`);
  trap.close();
}

/**
 * Checks that the data of each format is shown, and that data it does not record is named as
 * missing.
 *
 * @param {Checks} checks @param {Record<string, string>} files @param {(...sources: string[]) => Promise<string>} serve
 */
async function foreign(checks, files, serve) {
  const masks = "The mask is shown as the file has it";
  const none = "No tokens are recorded";
  const tokens = { slime: masks, traces: masks, atif: masks, inspect: none, eval: none, results: none, tau: none, tau2: none }; // prettier-ignore
  for (const [name, see] of Object.entries(tokens)) {
    const url = await serve(files[name] ?? "");
    const hasTokens = see === masks;
    await checks.page(`${name}, overview`, url, "#/0", { see: hasTokens ? "masks as the file has them" : "no tokens recorded" }); // prettier-ignore
    await checks.page(`${name}, episode`, url, "#/0/episode/1", { see: "The file does not record:" });
    await checks.page(`${name}, tokens`, url, "#/0/episode/1?t=1", { see });
    if (name.startsWith("tau"))
      await checks.page(`${name}, actions`, url, "#/0/episode/1", { see: "and it was never called" });
  }
}

/** @param {Checks} checks @param {(name: string) => string} at */
async function exported(checks, at) {
  const open = (/** @type {string} */ name) => pathToFileURL(at(name)).href;
  await exportView({ sources: [at("book")], episode: "36", file: at("one.html") });
  await checks.page("one episode, exported", open("one.html"), "", { see: "turn 0" });
  await exportView({ sources: [at("book")], where: "reward < 1", file: at("some.html") });
  await checks.page("a filter, exported", open("some.html"), "", { see: "of 48 episodes" });
  await exportView({ sources: [at("book"), at("worse")], file: at("two.html") });
  await checks.page("a comparison, exported", open("two.html"), "", { see: "worse against book" });
  await exportView({ sources: [at("train")], file: at("training.html") });
  await checks.page("a training, exported", open("training.html"), "", { see: "Logprobs" });
}
