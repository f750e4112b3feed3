// Opens pages of the viewer in a browser and records what is wrong with them: messages, access, width.

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../../run-command.mjs";

/** @typedef {import("playwright-core").Page} Page */
/** @typedef {{ width?: number, dark?: boolean }} Look */

const axe = readFileSync(join(root, "node_modules", "axe-core", "axe.min.js"), "utf8");
const screenshots = process.env["VIEWER_SCREENSHOTS"] ?? null;

/** Opens pages, and records their problems. */
export class Checks {
  /** @param {import("playwright-core").Browser} browser */
  constructor(browser) {
    this.browser = browser;
    /** @type {string[]} */
    this.problems = [];
    this.passed = 0;
  }

  /** @param {string} name @param {boolean} holds @param {string} [detail] */
  expect(name, holds, detail = "") {
    if (holds) this.passed++;
    else this.problems.push(`${name}${detail === "" ? "" : `: ${detail}`}`);
    process.stdout.write(`${holds ? "ok    " : "FAILED"}  ${name}${holds || detail === "" ? "" : `: ${detail}`}\n`);
  }

  /** @param {string} url @param {Look} [look] @returns {Promise<Page>} */
  async open(url, { width = 1280, dark = false } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: dark ? "dark" : "light",
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => this.expect(`no error in ${url}`, false, error.message));
    page.on("console", (message) => {
      // The page shows the reply to a refused request; the browser reports it all the same.
      const isRefusal = message.text().includes("status of 400");
      if (message.type() === "error" && !isRefusal) this.expect(`no message in ${url}`, false, message.text());
    });
    await page.goto(url);
    return page;
  }

  /**
   * Checks a page in both themes, and narrow: expected content is present, axe finds nothing, the
   * keyboard reaches everything, nothing is wider than the screen.
   *
   * @param {string} name @param {string} base @param {string} hash @param {{ see: string }} expected
   */
  async page(name, base, hash, { see }) {
    for (const look of /** @type {Look[]} */ ([{}, { dark: true }, { width: 390 }])) {
      const title = `${name}${look.dark === true ? ", dark" : look.width === undefined ? "" : ", 390 points"}`;
      const page = await this.open(base + hash, look);
      const isSeen = await page
        .getByText(see)
        .first()
        .waitFor({ timeout: 15_000 })
        .then(
          () => true,
          () => false,
        );
      await page.waitForTimeout(150);
      this.expect(title, isSeen, `"${see}" is not seen`);
      await this.accessible(title, page);
      const overflow = Number(await page.evaluate("document.documentElement.scrollWidth - innerWidth"));
      this.expect(`${title}: as wide as the screen`, overflow <= 0, `${overflow} points too wide`);
      // The same elements in every look.
      if (look.dark === true) await this.reachable(title, page);
      if (screenshots !== null) {
        mkdirSync(screenshots, { recursive: true });
        await page.screenshot({ path: join(screenshots, `${title.replaceAll(/\W+/g, "-")}.png`) });
      }
      await page.context().close();
    }
  }

  /** @param {string} title @param {Page} page */
  async accessible(title, page) {
    await page.evaluate(axe);
    const found = /** @type {{ id: string, impact: string, nodes: { html: string }[] }[]} */ (
      await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)")
    );
    const detail = found.map(({ id, nodes }) => `${id} (${nodes.length}: ${nodes[0]?.html.slice(0, 120)})`).join("; ");
    this.expect(`${title}: axe`, found.length === 0, detail);
  }

  /**
   * Checks that the key Tab reaches every link, button and field that can be seen, each with a
   * visible focus. Of long pages, the first ones.
   *
   * @param {string} title @param {Page} page
   */
  async reachable(title, page) {
    const most = 120;
    const count = Number(
      await page.evaluate(`(() => {
        const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
        globalThis.reachable = all.filter((one) => one.checkVisibility() && !one.disabled);
        globalThis.reached = new Set();
        document.activeElement?.blur();
        return globalThis.reachable.length;
      })()`),
    );
    const note = `(() => {
      const one = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(one);
      if (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) globalThis.reached.add(one);
    })()`;
    for (let pressed = 0; pressed < Math.min(count, most) + 5; pressed++) {
      await page.keyboard.press("Tab");
      await page.evaluate(note);
    }
    const missed = /** @type {string[]} */ (
      await page.evaluate(
        `globalThis.reachable.slice(0, ${most}).filter((one) => one.isConnected && !globalThis.reached.has(one)).map((one) => one.outerHTML.slice(0, 120))`,
      )
    );
    this.expect(`${title}: the keyboard reaches everything`, missed.length === 0, `${missed.length}: ${missed[0]}`);
  }

  tell() {
    process.stdout.write(`\n${this.passed} passed, ${this.problems.length} failed\n`);
    for (const problem of this.problems) process.stdout.write(`  ${problem}\n`);
    return this.problems.length === 0 ? 0 : 1;
  }
}
