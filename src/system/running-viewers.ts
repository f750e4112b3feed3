// The viewers that run on this machine, so that commands can print the address of the runs they
// name: a small file for each in the user's cache folder, trusted only if the viewer at its address
// answers. Failures to write or read these files are ignored.

import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { wellFormed } from "../lib/text.ts";
import { makeFolder } from "./make-folder.ts";

type Variables = Readonly<Record<string, string | undefined>>;

export type Announcement = {
  readonly url: string;
  /** Paths of the runs that were named. */
  readonly locations: readonly string[];
  /** Path of the folder whose runs are listed; `null` if runs were named. */
  readonly home: string | null;
};

/** Time in milliseconds within which a viewer must answer. */
const aliveMs = 300;

/** Folder of the files. */
function viewersFolder(variables: Variables): string {
  const { TRAINABLE_AGENTS_CACHE: named, XDG_CACHE_HOME: xdg } = variables;
  return join(named || join(xdg || join(homedir(), ".cache"), "trainable-agents"), "viewers");
}

/** Announces a viewer. The returned function removes the announcement. */
export async function announceViewer(announcement: Announcement, variables: Variables): Promise<() => Promise<void>> {
  const folder = viewersFolder(variables);
  const file = join(folder, `${process.pid}-${new URL(announcement.url).port}.json`);
  try {
    await makeFolder(folder);
    // The file is private, because the address may contain a token.
    await writeFile(file, JSON.stringify(announcement), { mode: 0o600 });
  } catch {
    return () => Promise.resolve();
  }
  return () => rm(file, { force: true });
}

/**
 * The page of a run, or of one of its episodes by number or id, in a running viewer that shows it;
 * `null` if there is none.
 */
export async function viewerLink(
  run: string,
  episode: { readonly name: string; readonly asTokens: boolean } | null,
  variables: Variables,
): Promise<string | null> {
  const folder = viewersFolder(variables);
  const location = resolve(run);
  for (const name of await readdir(folder).catch(() => [])) {
    const file = join(folder, name);
    const found = await readAnnouncement(file);
    const key = found === null ? null : keyOf(found, location);
    if (found === null || key === null) continue;
    if (!(await isAlive(found.url))) {
      await rm(file, { force: true }).catch(() => undefined);
      continue;
    }
    const page =
      episode === null
        ? ""
        : `/episode/${encodeURIComponent(wellFormed(episode.name))}${episode.asTokens ? "?t=1" : ""}`;
    return `${found.url}#/${encodeURIComponent(key)}${page}`;
  }
  return null;
}

/** The key of a run in a viewer's addresses; `null` if the viewer does not show it. */
function keyOf({ locations, home }: Announcement, location: string): string | null {
  const place = locations.indexOf(location);
  if (place !== -1) return String(place);
  const below = home === null ? "" : relative(home, location);
  return below === "" || isAbsolute(below) || below.split(sep)[0] === ".." ? null : below.split(sep).join("/");
}

async function readAnnouncement(file: string): Promise<Announcement | null> {
  try {
    const value = JSON.parse(await readFile(file, "utf8")) as { readonly [Key in keyof Announcement]?: unknown };
    const { url, locations, home } = value;
    if (typeof url !== "string" || !/^https?:$/.test(new URL(url).protocol) || !Array.isArray(locations)) return null;
    const named = (locations as readonly unknown[]).filter((one) => typeof one === "string");
    return { url, locations: named, home: typeof home === "string" ? home : null };
  } catch {
    return null;
  }
}

async function isAlive(url: string): Promise<boolean> {
  const { origin, searchParams } = new URL(url);
  const token = searchParams.get("token");
  const headers: Record<string, string> = token === null ? {} : { "x-viewer-token": token };
  try {
    return (await fetch(`${origin}/api/alive`, { headers, signal: AbortSignal.timeout(aliveMs) })).ok;
  } catch {
    return false;
  }
}
