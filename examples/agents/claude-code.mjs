// Claude Code as the agent: npm install -g @anthropic-ai/claude-code. It reads ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, works in an
// empty folder with the stock as a file, and has a home of its own, so that no settings of yours change what is evaluated.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finish, lookUp, task } from "./shop.mjs";

const folder = mkdtempSync(join(tmpdir(), "claude-code-"));
const titles = ["The Hollow Clock", "The Velvet Baker", "The Distant Whale", "The Paper Sailor"];
writeFileSync(join(folder, "stock.txt"), titles.map((title) => `${lookUp(title)}\n`).join(""));
const prompt = `The stock of a bookshop is in stock.txt. ${task.question} Answer in one sentence.`;
const { status, stdout, stderr } = spawnSync("claude", ["-p", prompt, "--allowed-tools", "Read,Bash"], {
  cwd: folder,
  encoding: "utf8",
  stdio: ["ignore", "pipe", "pipe"],
  env: { ...process.env, HOME: folder, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
});
rmSync(folder, { recursive: true, force: true });
if (status !== 0) throw new Error(`claude ended with ${status}: ${stderr || stdout}`);
finish(stdout.trim());
