// The page: one HTML text that contains its script and style, each named by its hash, so that no
// other script runs and nothing is loaded. A served page may fetch only from its server; an
// exported page fetches nothing and holds its answers.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { ConfigurationError } from "../core/index.ts";

/** The built page: its script and its style. */
export type PageParts = { readonly script: string; readonly style: string };

/** Rejects with a `ConfigurationError` in a clone that has not been built. */
export async function readPageParts(): Promise<PageParts> {
  const read = (name: string): Promise<string> =>
    readFile(new URL(`../../dist/viewer/page/${name}`, import.meta.url), "utf8");
  try {
    const [script, style] = await Promise.all([read("app.js"), read("app.css")]);
    return { script, style };
  } catch (cause) {
    throw new ConfigurationError("Cannot open the viewer: its page is not built; run npm run build.", { cause });
  }
}

const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** `connect`: the sources that the page may fetch from. */
function policyOf({ script, style }: PageParts, connect: "'self'" | "'none'"): string {
  return [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    `connect-src ${connect}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

/** Headers of everything that the server sends. */
export const safeHeaders = Object.freeze({
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cache-control": "no-store",
});

/**
 * `writeToken`: what requests that change something must carry, so that only this page can make
 * them; `null` if nothing may be changed.
 */
export function servedPage(
  parts: PageParts,
  writeToken: string | null,
): {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
} {
  return {
    html: htmlOf(parts, {
      head: writeToken === null ? "" : `<meta name="write-token" content="${writeToken}">`,
      data: "",
    }),
    headers: {
      ...safeHeaders,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `${policyOf(parts, "'self'")}; frame-ancestors 'none'`,
    },
  };
}

/** Answers that an exported page holds: bodies by the paths that the page requests. */
export type PageData = { readonly home: string; readonly answers: Readonly<Record<string, string>> };

export function exportedPage(parts: PageParts, data: PageData): string {
  const packed = gzipSync(JSON.stringify(data), { level: 9 }).toString("base64");
  return htmlOf(parts, {
    head: `<meta http-equiv="Content-Security-Policy" content="${policyOf(parts, "'none'")}">`,
    data: `<script type="text/plain" id="data">${packed}</script>`,
  });
}

function htmlOf(
  { script, style }: PageParts,
  { head, data }: { readonly head: string; readonly data: string },
): string {
  return [
    "<!doctype html>",
    '<html lang="en">',
    `<head><meta charset="utf-8">${head}<meta name="viewport" content="width=device-width, initial-scale=1">`,
    '<link rel="icon" href="data:,">',
    `<title>trainable-agents</title><style>${style}</style></head>`,
    `<body><div id="app"></div>${data}<script type="module">${script}</script></body>`,
    "</html>\n",
  ].join("\n");
}
