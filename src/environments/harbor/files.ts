// Files on their way into a sandbox: packed outside by tar, which stores links as links, and unpacked
// inside, where links lead nowhere else.

import { spawn } from "node:child_process";
import { lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { faultAt } from "../../core/failure.ts";
import type { Copy } from "./dockerfile.ts";
import type { Sandbox } from "./sandbox.ts";

const mostBytes = 256 * 1024 * 1024;
const timeoutMs = 120_000;

type Options = { readonly signal?: AbortSignal | undefined };

/** Copies the content of a folder of this machine to a folder inside. Rejects with a failure. */
export async function uploadFolder(
  sandbox: Sandbox,
  from: string,
  { to, signal }: Options & { readonly to: string },
): Promise<void> {
  await unpack(sandbox, await pack(from, "."), {
    to,
    script: 'mkdir -p -- "$0" && tar -x --no-same-owner -C "$0"',
    signal,
  });
}

/** Carries out a `COPY` of a Dockerfile. Rejects with a failure. */
export async function copyInto(
  sandbox: Sandbox,
  { from, to }: Copy,
  { environment, signal }: Options & { readonly environment: string },
): Promise<void> {
  for (const path of from) {
    const source = join(environment, path);
    if (lstatSync(source).isDirectory()) {
      await uploadFolder(sandbox, source, { to, signal });
    } else {
      const archive = await pack(dirname(source), basename(source));
      const mode = (lstatSync(source).mode & 0o777).toString(8);
      const target = to.endsWith("/") ? join(to, basename(source)) : to;
      const script = `mkdir -p -- "$(dirname -- "$0")" && tar -xO > "$0" && chmod ${mode} -- "$0"`;
      await unpack(sandbox, archive, { to: target, script, signal });
    }
  }
}

async function unpack(
  sandbox: Sandbox,
  archive: Buffer,
  { to, script, signal }: Options & { readonly to: string; readonly script: string },
): Promise<void> {
  const run = ["/bin/bash", "--norc", "-c", script, to];
  const { exitCode, output } = await sandbox.run({ run, cwd: "/", input: archive, timeoutMs, signal });
  if (exitCode === 0) return;
  throw faultAt(
    "environment",
    "upload-failed",
    `Cannot copy files to "${to}" in the sandbox: ${output.trim().slice(0, 500) || "tar did not end in time"}.`,
  );
}

/** An archive of an entry of a folder; owners and times are not kept. */
function pack(folder: string, entry: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const args = ["-c", "--owner=0", "--group=0", "--numeric-owner", "-C", folder, "--", entry];
    const child = spawn("tar", args, { stdio: ["ignore", "pipe", "pipe"], timeout: timeoutMs });
    const chunks: Buffer[] = [];
    let size = 0;
    let errors = "";
    child.stdout.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > mostBytes) child.kill("SIGKILL");
      else chunks.push(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      if (errors.length < 500) errors += chunk.toString("utf8");
    });
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(Buffer.concat(chunks));
      else
        reject(
          faultAt("environment", "upload-failed", `Cannot pack "${folder}": ${errors.trim() || "it is too large"}.`),
        );
    });
  });
}
