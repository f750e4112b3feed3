// Trainings, in a browser: their curves with intervals, the groups of a step, and another training over them.

import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {{ training: string, folder: string, serve: (...sources: string[]) => Promise<string> }} parts
 */
export async function trainings(checks, { training, folder, serve }) {
  // The same training with other rates, one step longer.
  cpSync(training, folder, { recursive: true });
  const file = join(folder, "metrics.csv");
  const [header = "", ...lines] = readFileSync(file, "utf8").trim().split("\n");
  const last = (lines.at(-1) ?? "").split(",");
  last[header.split(",").indexOf("step")] = String(lines.length + 1);
  last[header.split(",").indexOf("mean_reward")] = "0.125";
  writeFileSync(file, `${[header, ...lines, last.join(",")].join("\n")}\n`);
  const url = await serve(training, folder);
  const page = await checks.open(`${url}#/0`);
  const charts = page.getByRole("img", { name: /, by step: / });
  await charts.first().waitFor();
  const labels = "[...document.querySelectorAll('.chart [role=img]')].map((one) => one.ariaLabel).join('\\n')";
  const names = String(await page.evaluate(labels));
  for (const title of [
    "Pass rate of training",
    "Pass rate on held-out tasks",
    "Reward",
    "Turns of an episode",
    "Entropy",
  ]) {
    checks.expect(`training: ${title}`, names.includes(title), names);
  }
  checks.expect("training: sampled and greedy", /held-out tasks, by step: sampled \d.*, greedy \d/.test(names), names);
  const text = async () => String(await page.evaluate("document.body.innerText"));
  checks.expect("training: what was not measured is said", /Not measured, or 0 at every step:.*staleness/.test(await text())); // prettier-ignore
  await page.getByRole("combobox", { name: /groups of step/ }).selectOption("2");
  await page.getByText(/\d+ of \d+ groups of step 2 taught something/).waitFor();
  const rows = await page.getByRole("region", { name: "Groups of step 2" }).locator("tbody tr").count();
  checks.expect("training: a step opens its groups", rows > 0, `${rows} groups`);
  await page
    .locator(".chart .u-over")
    .first()
    .click({ position: { x: 3, y: 40 } });
  await page.getByText(/groups of step 1 taught something/).waitFor();
  checks.expect("training: a click on a curve opens the step there", true);
  await page.getByRole("link", { name: /over it/ }).press("Enter");
  await page.getByRole("region", { name: "Last values of both" }).waitFor();
  const both = await page.getByRole("region", { name: "Last values of both" }).innerText();
  checks.expect("training: two are compared by their last values", /reward[^]*0\.13 at step 4/.test(both), both);
  const overlaid = await page.locator(".chart .said").first().innerText();
  checks.expect("training: both are in the same chart", /smoothed \d.*longer: smoothed \d/.test(overlaid), overlaid);
  await page.context().close();
  const list = `${folder}-list`;
  for (const [name, from] of Object.entries({ one: training, two: folder }))
    cpSync(from, join(list, name), { recursive: true });
  const home = await checks.open(await serve(list));
  await home.getByRole("checkbox", { name: "compare one" }).press("Space");
  await home.getByText("is the baseline; tick a second training").waitFor();
  await home.getByRole("checkbox", { name: "compare two" }).press("Space");
  await home.getByRole("link", { name: "the curves of two over those of one" }).press("Enter");
  await home.getByRole("region", { name: "Last values of both" }).waitFor();
  checks.expect("training: two that are ticked are laid over each other", true);
  await home.context().close();
  await checks.page("training, a step", url, "#/0?step=2", { see: "groups of step 2 taught" });
  await checks.page("training, two overlaid", url, "#/0?with=1", { see: "Laid over it, dashed" });
}
