// Marks of people, in a browser: by keyboard, with a hostile reason, on the page of the run, exported, and where none can be kept.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { exportView } from "../../../dist/index.js";

const reason = '<img src=x onerror="document.title=1"> it left its instruction';

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {{ from: string, folder: string, open: (options: { sources: string[], readOnly?: boolean }) => Promise<string> }} parts
 */
export async function markedEpisodes(checks, { from, folder, open }) {
  cpSync(from, folder, { recursive: true });
  const url = await open({ sources: [folder] });
  const page = await checks.open(`${url}#/0/episode/1`);
  const said = page.locator(".mark [role=status]");
  const kept = async () => {
    await said.filter({ hasText: /^(?:kept|taken back)$/ }).waitFor();
    return said.innerText();
  };
  await page.locator(".mark").waitFor();
  await page.keyboard.press("y");
  await page.getByRole("button", { name: "right", pressed: true }).waitFor();
  await kept();
  await page.keyboard.press("y");
  checks.expect("marks: the same key takes a mark back", (await kept()) === "taken back");
  await page.keyboard.press("2");
  await page.getByRole("button", { name: "wrong", pressed: true }).waitFor();
  await kept();
  const fault = await page.getByRole("combobox", { name: "Whose fault it is" }).inputValue();
  checks.expect("marks: a number says whose fault it is", fault === "user", fault);
  await page.keyboard.press("w");
  await page.keyboard.type(reason);
  await page.keyboard.press("Enter");
  await kept();
  await page.keyboard.press("Escape");
  for (const [episode, key] of Object.entries({ 2: "y", 3: "n", 4: "y", 5: "1" })) {
    await page.goto(`${url}#/0/episode/${episode}`);
    await page.getByRole("heading", { name: new RegExp(`^${episode} `) }).waitFor();
    await page.keyboard.press(key);
    await kept();
  }
  await page.goto(`${url}#/0`);
  await page.getByRole("heading", { name: "Agreement with the marks" }).waitFor();
  const table = await page.getByRole("region", { name: "Agreement with the marks" }).innerText();
  checks.expect("marks: the reward's agreement with its intervals", /reward[^]*5[^]*\[\d+ to \d+\]/.test(table), table);
  const signs = await page.locator(".mark-sign").count();
  checks.expect("marks: the table of episodes shows them", signs === 5, `${signs} signs`);
  await page.getByRole("link", { name: /mark wrong/ }).press("Enter");
  await page.getByText(/3 of \d+ episodes with mark wrong/).waitFor();
  const labels = await (await fetch(`${url}api/labels?run=0`)).json();
  const found = /** @type {{ labels: { label: string, reason: string }[] }} */ (labels).labels;
  checks.expect("marks: those with a fault are labels", found.length === 2 && found[0]?.reason === reason, JSON.stringify(found)); // prettier-ignore
  await page.context().close();
  await checks.page("marks, run", url, "#/0", { see: "Agreement with the marks" });
  await checks.page("marks, episode", url, "#/0/episode/1", { see: "turn 0" });
  const shown = await open({ sources: [folder], readOnly: true });
  await checks.page("marks, only shown", shown, "#/0/episode/1", { see: "started with --read-only" });
  const file = join(folder, "..", "marks.html");
  await exportView({ sources: [folder], file });
  await checks.page("marks, exported", pathToFileURL(file).href, "#/0/episode/1", { see: "in an exported file" });
  const read = await checks.open(`${pathToFileURL(file).href}#/0/episode/1`);
  await read.locator(".mark").waitFor();
  const text = await read.locator(".mark").innerText();
  const images = await read.locator("#app img").count();
  checks.expect("marks: an exported page shows them as text", text.includes(reason) && images === 0, text);
  await read.context().close();
}
