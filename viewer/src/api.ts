// The source of the page's answers: the server that sent it, or the exported file itself.

import {
  apiPath,
  type Hit,
  type Mark,
  type PathValue,
  type Refusal,
  type RunFacts,
  type SearchEnd,
} from "../../src/viewer/wire/index.ts";

type Embedded = { readonly home: string; readonly answers: Readonly<Record<string, string>> };

let embedded: Embedded | null = null;
const token = new URLSearchParams(location.search).get("token");
/** `null` in an exported page, and in one that only shows. */
const writeToken = document.querySelector<HTMLMetaElement>('meta[name="write-token"]')?.content ?? null;

/** Reads the answers of an exported page. Without them the page sends requests to the server. */
export async function readEmbedded(): Promise<void> {
  const block = document.getElementById("data");
  if (block === null) return;
  const bytes = Uint8Array.from(atob(block.textContent ?? ""), (mark) => mark.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  embedded = (await new Response(stream).json()) as Embedded;
  block.remove();
  if (location.hash === "") location.hash = embedded.home;
}

export const isExported = (): boolean => embedded !== null;

/** Rejects with an `Error` whose message is for users. */
export async function ask<T>(name: string, values: Readonly<Record<string, PathValue>> = {}): Promise<T> {
  const path = apiPath(name, values);
  if (embedded !== null) {
    const found = embedded.answers[path];
    if (found === undefined)
      throw new Error("This is not in the exported file. Open the run with trainable-agents view.");
    return JSON.parse(found) as T;
  }
  const response = await send(path);
  const body = (await response.json()) as T | Refusal;
  if (!response.ok) throw new Error((body as Refusal).error);
  return body as T;
}

/** Why no mark can be kept on this page; `null` if one can. */
export function readOnlyReason({ readOnly }: Pick<RunFacts, "readOnly">): string | null {
  if (embedded !== null) return "Marks cannot be kept in an exported file: open the run with trainable-agents view.";
  if (readOnly !== null || writeToken !== null) return readOnly;
  return "Marks cannot be kept: this page only shows.";
}

/** Keeps a mark, or takes it back. Rejects with an `Error` whose message is for users. */
export async function keepMark(run: string, episode: number, mark: Omit<Mark, "at"> | null): Promise<Mark | null> {
  const response = await send(apiPath("mark", { run }), {
    method: "POST",
    headers: { "content-type": "application/json", "x-viewer-write": writeToken ?? "" },
    body: JSON.stringify({ episode: String(episode), mark }),
  });
  const body = (await response.json()) as { readonly mark: Mark | null } | Refusal;
  if ("error" in body) throw new Error(body.error);
  return body.mark;
}

/** Address of an answer for a link. */
export function linkToAnswer(name: string, values: Readonly<Record<string, PathValue>>): string {
  return apiPath(name, { ...values, token });
}

async function send(path: string, { signal, headers, ...rest }: RequestInit = {}): Promise<Response> {
  try {
    const own = token === null ? {} : { "x-viewer-token": token };
    return await fetch(path, { ...rest, headers: { ...(headers as object), ...own }, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new Error("The viewer does not answer: its process has ended. Start it again and reload this page.", {
      cause: error,
    });
  }
}

/** Calls `onHit` for each hit as it arrives. */
export async function search(
  run: string,
  text: string,
  { onHit, signal }: { readonly onHit: (hit: Hit) => void; readonly signal: AbortSignal },
): Promise<SearchEnd> {
  if (embedded !== null) throw new Error("An exported file is searched with the browser's own search.");
  const response = await send(apiPath("search", { run, text }), { signal });
  if (!response.ok) throw new Error(((await response.json()) as Refusal).error);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const found = JSON.parse(line) as Hit | SearchEnd;
      if ("isWhole" in found) return found;
      onHit(found);
    }
  }
  throw new Error("The search broke off.");
}
