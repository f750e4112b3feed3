// A real browser for the viewer's verification: Debian's Chromium, driven over its own protocol. Nothing is downloaded.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

import { CannotVerify } from "../python.mjs";

const places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Installs Chromium from Debian if missing. */
export function installChromium() {
  if (findChromium() !== null) return;
  const apt = (/** @type {string[]} */ ...words) => spawnSync("apt-get", words, { encoding: "utf8" });
  if (apt("install", "--yes", "--quiet", "--no-install-recommends", "chromium").status !== 0) {
    apt("update", "--quiet");
    const { status, stderr } = apt("install", "--yes", "--quiet", "--no-install-recommends", "chromium");
    if (status !== 0) {
      throw new CannotVerify(
        `Cannot install Chromium: ${stderr?.trim() || "there is no apt-get"}; install it, or set CHROMIUM.`,
      );
    }
  }
}

/** @returns {string | null} */
export function findChromium() {
  const named = process.env["CHROMIUM"];
  return named ?? places.find((place) => existsSync(place)) ?? null;
}

/** @returns {Promise<import("playwright-core").Browser>} */
export async function openBrowser() {
  installChromium();
  const { chromium } = await import("playwright-core");
  const executablePath = findChromium();
  if (executablePath === null) throw new CannotVerify("Cannot find Chromium: install it, or set CHROMIUM to its path.");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}
