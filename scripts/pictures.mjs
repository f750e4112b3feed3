// `node scripts/pictures.mjs`: writes the pictures of README, light and dark, with Chromium: the page of a run of the shipped
// nano model, and a conversation of it with its mask. Build before; the run takes half a minute.

import { mkdtempSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { rollout, view } from "../dist/index.js";
import { root } from "./run-command.mjs";
import { openBrowser } from "./verify/viewer/browser.mjs";

/** The size of a picture in CSS pixels, and the most bytes that all of them may take. */
const viewport = { width: 1040, height: 640 };
const mostBytes = 300_000;
/** An episode that fails after several calls. */
const episode = 36;

/** @typedef {import("playwright-core").Page} Page */

const pictures = [
  {
    name: "run",
    hash: "#/0",
    wait: async (/** @type {Page} */ page) => {
      await page.getByText("masks in order", { exact: true }).waitFor();
      await page.locator("tbody tr").nth(5).waitFor();
    },
  },
  {
    name: "mask",
    hash: `#/0/episode/${episode}?t=1`,
    wait: async (/** @type {Page} */ page) => {
      const sampled = page.getByText("turn 0, sampled").first();
      await sampled.waitFor();
      // The first sampled tokens stand in the upper part, with the end of the prompt above them.
      await page.mouse.wheel(0, ((await sampled.boundingBox())?.y ?? 0) - 260);
    },
  },
];

const work = mkdtempSync(join(tmpdir(), "trainable-agents-pictures-"));
const browser = await openBrowser();
let bytes = 0;
try {
  const out = join(work, "first-run");
  await rollout({
    env: "bookshop",
    engine: "embedded",
    model: "bookshop-nano",
    tasks: "0-15",
    groupSize: 4,
    seed: 1,
    seedTurns: true,
    quiet: true,
    out,
    variables: {},
  });
  const viewer = await view({ sources: [out], listen: "127.0.0.1:0" });
  for (const colorScheme of /** @type {const} */ (["light", "dark"])) {
    const page = await browser.newPage({ viewport, colorScheme, reducedMotion: "reduce" });
    for (const { name, hash, wait } of pictures) {
      await page.goto(new URL(hash, viewer.url).href);
      await wait(page);
      await page.waitForTimeout(300);
      // Playwright has no WebP, which takes a third of a PNG here.
      const session = await page.context().newCDPSession(page);
      const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 80 });
      const picture = Buffer.from(data, "base64");
      bytes += picture.length;
      await writeFile(join(root, "docs", "pictures", `${name}-${colorScheme}.webp`), picture);
    }
    await page.close();
  }
  await viewer.close();
} finally {
  await browser.close();
  rmSync(work, { recursive: true });
}
process.stdout.write(`${2 * pictures.length} pictures, ${Math.round(bytes / 1000)} kB\n`);
if (bytes > mostBytes) {
  process.stderr.write(`The pictures take more than ${mostBytes / 1000} kB; lower their quality.\n`);
  process.exitCode = 1;
}
