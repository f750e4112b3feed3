// A recording of users as a file of JSON lines, which --replay-users reads. Exchanges are written one after another, each
// before its line counts; the file is made when the first one comes.

import { existsSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";
import { ConfigurationError, type UserSource } from "../core/index.ts";
import { recordingUser } from "../users/index.ts";

/** The source, recorded; as it is when `file` is `null`. Throws a `ConfigurationError` when the file exists and the run begins. */
export function recordUsers(
  source: UserSource,
  file: string | null,
  options: { readonly cwd: string; readonly redact: (text: string) => string; readonly resumes: boolean },
): UserSource {
  if (file === null) return source;
  const path = resolve(options.cwd, file);
  if (!options.resumes && existsSync(path)) {
    throw new ConfigurationError(
      `Cannot record users to "${file}": the file exists; name another with --record-users.`,
    );
  }
  let written: Promise<void> = Promise.resolve();
  return recordingUser(source, (exchange) => {
    const line = `${options.redact(JSON.stringify(exchange))}\n`;
    const before = written;
    const writing = before.catch(() => undefined).then(() => appendFile(path, line));
    written = writing;
    return writing;
  });
}
