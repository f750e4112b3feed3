// The page of a run and of an episode, in a browser: chips, columns, curves, a pair that parts; the outline, find, copies, the record.

/** @typedef {import("playwright-core").Page} Page */

/** @param {import("./checks.mjs").Checks} checks @param {string} url A run of the bookshop with failures. */
export async function runPage(checks, url) {
  const page = await checks.open(`${url}#/0`);
  await page.locator("tr[data-number]").first().waitFor();
  await page.getByRole("link", { name: /fault agent/ }).waitFor();
  const text = async () => String(await page.evaluate("document.body.innerText"));
  const first = await text();
  checks.expect(
    "run: pass^k stands with its interval",
    /pass\^k[^]*0\.\d{3} to \d\.\d{3}/.test(first),
    first.slice(0, 400),
  );
  checks.expect("run: no failures are counted beside unsuccessful episodes", /\d+ unsuccessful, 0 errored/.test(first) && !/\bfailures?\b/.test(first)); // prettier-ignore
  checks.expect("run: the order of curves is said", first.includes("in the order of the plan, task by task"));
  await page.getByRole("button", { name: "show them in the order in which episodes ended" }).press("Enter");
  await page.getByText("Curves in the order in which episodes ended").waitFor();
  await page.locator("td.text", { hasText: /\w{3}/ }).first().waitFor();
  const said = await page.locator("tr[data-number] td.text").allInnerTexts();
  checks.expect("run: rows say what was asked and said", said.filter((one) => /\w{3}/.test(one)).length > 20, said.slice(0, 4).join("|")); // prettier-ignore
  await page.locator(".columns-choice > summary").press("Enter");
  await page.getByRole("checkbox", { name: "cost" }).press("Space");
  await page.getByRole("checkbox", { name: "what the grader said" }).press("Space");
  await page.getByRole("columnheader", { name: "cost" }).waitFor();
  await page.reload();
  await page.getByRole("columnheader", { name: "cost" }).waitFor();
  const hidden = await page.getByRole("columnheader", { name: "what the grader said" }).count();
  checks.expect("run: chosen columns stay", hidden === 0);
  await page.getByRole("link", { name: /fault agent/ }).press("Enter");
  await page.getByText(/of \d+ episodes with fault agent/).waitFor();
  await page.context().close();
}

/** @param {import("./checks.mjs").Checks} checks @param {string} url @param {string} group A group with a passing and a failing episode. */
export async function partingGroup(checks, url, group) {
  const hash = `#/0/group/${encodeURIComponent(group)}`;
  await checks.page("group that parts", url, hash, { see: "One that passes beside one that does not" });
  const page = await checks.open(url + hash);
  await page.locator(".parts").first().waitFor();
  const marked = await page.locator(".parts").count();
  checks.expect("group: each of the two has the step at which they part", marked === 2, `${marked} marks`);
  await page.context().close();
}

/** @param {import("./checks.mjs").Checks} checks @param {string} url */
export async function episodePage(checks, url) {
  await checks.page("record", url, "#/0/episode/3?r=1", { see: '"historyPolicy"' });
  const page = await checks.open(`${url}#/0/episode/3`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const clipboard = async () => String(await page.evaluate("navigator.clipboard.readText()"));
  await page.locator(".outline > summary").press("Enter");
  await page.getByRole("img", { name: /Time: sampling/ }).waitFor();
  const outline = await page.locator(".outline").innerText();
  checks.expect("episode: the outline says what it took", /prompts [\d,]+ tokens.*sampled [\d,]+/.test(outline.replaceAll("\n", " ")), outline); // prettier-ignore
  await page.locator(".outline-turns a").nth(1).press("Enter");
  await page.waitForURL(/turn=1/);
  const tools = page.locator('[data-turn="1"] .turn-tools');
  await tools.locator("summary").press("Enter");
  await tools.getByText('"input_ids"').waitFor();
  await checks.accessible("episode: request and reply", page);
  await tools.getByRole("button", { name: "copy as test case" }).press("Enter");
  await tools.getByText("copy as test case: copied").waitFor();
  const task = /** @type {{ id: string, messages: { role: string }[], answer: object }} */ (
    JSON.parse(await clipboard())
  );
  const roles = task.messages.map(({ role }) => role);
  checks.expect("episode: a turn is copied as a test case", task.id.endsWith("@1") && roles.filter((one) => one === "assistant").length === 1, roles.join()); // prettier-ignore
  await tools.getByRole("button", { name: "copy link" }).press("Enter");
  await tools.getByText("copy link: copied").waitFor();
  const link = await clipboard();
  checks.expect("episode: a link to a turn", link === `${url}#/0/episode/3?turn=1`, link);
  await page.keyboard.press("Escape");
  await page.evaluate("document.activeElement?.blur()");
  await page.keyboard.press("f");
  await page.keyboard.type("the");
  const found = page.locator(".find [role=status]");
  await found.getByText(/^1 of \d+$/).waitFor();
  await page.keyboard.press("Enter");
  await found.getByText(/^2 of \d+$/).waitFor();
  await page.keyboard.press("Shift+Enter");
  await found.getByText(/^1 of \d+$/).waitFor();
  const marks = Number(await page.evaluate("CSS.highlights.get('found').size"));
  checks.expect("episode: every occurrence is marked", marks > 2, `${marks} marks`);
  await page.context().close();
}
