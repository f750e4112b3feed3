// Types and functions that the viewer's server and its page share. Runs in a browser.

export * from "./decode.ts";
export * from "./overlay.ts";
export { apiPath, type PathValue } from "./paths.ts";
export { wellFormed } from "../../lib/visible-text.ts";
export type * from "./wire.ts";
