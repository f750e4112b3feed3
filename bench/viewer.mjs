// Speed of the viewer: `npm run bench -- viewer`. Tokens drawn and scrolled in a real browser; a
// run of 20,000 episodes opened and searched. Times on a loaded machine are longer: the page's own
// work is the relevant figure.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { exportView, view } from "../dist/index.js";
import { createFileRunStore, openRunFolder } from "../dist/store/index.js";
import { openBrowser } from "../scripts/verify/viewer/browser.mjs";
import { copiedRuns } from "../scripts/verify/viewer/home.mjs";
import { bookshopRun, largeRun } from "../scripts/verify/viewer/runs.mjs";

const work = mkdtempSync(join(tmpdir(), "trainable-agents-viewer-"));
const at = (name) => join(work, name);
const browser = await openBrowser();

/** A run of one episode whose turns have this many tokens in total. */
async function longRun(folder, tokens) {
  const reader = openRunFolder(at("book"));
  const first = await reader.episode(1);
  const manifest = await reader.manifest();
  const [turn] = first.trajectory.turns;
  const turns = [];
  const perTurn = 10_000;
  for (let index = 0; index < tokens / perTurn; index++) {
    const ids = Uint32Array.from({ length: perTurn / 2 }, (_, place) => 65 + ((place * 7 + index) % 26));
    for (let place = 60; place < ids.length; place += 60) ids[place] = 10;
    const logprobs = Float32Array.from(ids, (_, place) => -((place * 37) % 80) / 10);
    const weightSpans = [{ tokenCount: ids.length, dispatch: "1", reply: "1" }];
    turns.push({
      ...turn,
      index,
      parent: index === 0 ? null : index - 1,
      observationTokens: ids,
      sampledTokens: ids,
      logprobs,
      weightSpans,
    });
  }
  const events = [{ type: "episode-start", episodeId: first.id, taskId: first.task.id, seed: 1 }];
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  await store.append({ ...first, trajectory: { turns }, events });
  await store.close(manifest);
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/**
 * Measures the time from the key press to the next frame, and the frames of a scroll through all
 * tokens.
 */
async function measureTokens(tokens) {
  await longRun(at(`long-${tokens}`), tokens);
  const viewer = await view({ sources: [at(`long-${tokens}`)], listen: "127.0.0.1:0" });
  const opened = [];
  let frames = [];
  for (let round = 0; round < 3; round++) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(`${viewer.url}#/0/episode/1`);
    await page.locator(".strip").waitFor();
    // Tokens that the key shows are fetched in advance; a reader takes longer than this.
    await page.waitForTimeout(1500 + tokens / 200);
    opened.push(
      await page.evaluate(`new Promise((done) => {
        const started = performance.now();
        const look = () => document.querySelector(".chunk") === null ? requestAnimationFrame(look) : requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
        dispatchEvent(new KeyboardEvent("keydown", { key: "t" }));
        requestAnimationFrame(look);
      })`),
    );
    frames = await page.evaluate(`new Promise((done) => {
      const frames = [];
      let last = performance.now();
      const step = (now) => {
        frames.push(now - last);
        last = now;
        scrollBy(0, 400);
        if (frames.length < 240) requestAnimationFrame(step);
        else done(frames.slice(1));
      };
      requestAnimationFrame(step);
    })`);
    if (round === 0) {
      const nodes = await page.evaluate("document.querySelectorAll('*').length");
      process.stdout.write(`${tokens.toLocaleString("en")} tokens: ${nodes} elements\n`);
    }
    await page.close();
  }
  const sorted = frames.toSorted((a, b) => a - b);
  process.stdout.write(
    `${tokens.toLocaleString("en")} tokens: open ${median(opened).toFixed(0)} ms (of ${opened.map((ms) => ms.toFixed(0)).join(", ")}), ` +
      `frames p50 ${sorted[sorted.length >> 1].toFixed(0)}, p95 ${sorted[Math.floor(sorted.length * 0.95)].toFixed(0)} ms\n`,
  );
  await viewer.close();
}

/** 1,000 runs of a folder: the list with their descriptions, then all rates. */
async function measureHome() {
  copiedRuns(at("book"), at("home"), 1000);
  // Loads the modules of the viewer.
  await (await view({ sources: [at("book")], listen: "127.0.0.1:0" })).close();
  const started = performance.now();
  const viewer = await view({ sources: [at("home")], listen: "127.0.0.1:0" });
  const look = async () => (await fetch(`${viewer.url}api/home?count=200`)).json();
  let page = await look();
  process.stdout.write(`${page.total} runs: listed after ${(performance.now() - started).toFixed(0)} ms\n`);
  while (page.isReading) page = await look();
  process.stdout.write(`  all rates read after ${(performance.now() - started).toFixed(0)} ms\n`);
  await viewer.close();
}

async function measureRun() {
  await largeRun(at("book"), at("large"), 20_000);
  const bytes = statSync(join(at("large"), "episodes.jsonl")).size;
  let started = performance.now();
  const viewer = await view({ sources: [at("large")], listen: "127.0.0.1:0" });
  const rows = await (await fetch(`${viewer.url}api/rows?run=0&count=100`)).json();
  process.stdout.write(
    `20,000 episodes, ${(bytes / 1e6).toFixed(0)} MB: opened, newest ${rows.rows.length} rows after ${(performance.now() - started).toFixed(0)} ms\n`,
  );
  for (;;) {
    const summary = await (await fetch(`${viewer.url}api/summary?run=0`)).json();
    if (summary.read === summary.episodes) break;
  }
  process.stdout.write(`  all rows read after ${(performance.now() - started).toFixed(0)} ms\n`);
  started = performance.now();
  const found = (await (await fetch(`${viewer.url}api/search?run=0&text=no+such+text+anywhere`)).text()).trim();
  const ms = performance.now() - started;
  process.stdout.write(`  searched in ${ms.toFixed(0)} ms, ${(bytes / 1000 / ms).toFixed(0)} MB a second: ${found}\n`);
  await viewer.close();
}

try {
  await bookshopRun(at("book"), { noise: 0.4 });
  await measureHome();
  await measureTokens(100_000);
  await measureTokens(1_000_000);
  await measureRun();
  const size = await exportView({ sources: [at("book")], file: at("page.html") });
  process.stdout.write(`48 episodes as one file: ${(size / 1000).toFixed(0)} kB\n`);
} finally {
  await browser.close();
  rmSync(work, { recursive: true, force: true, maxRetries: 5 });
}
