// A test server that needs only node: the protocol in forty lines, and one tool for each kind of
// misbehaviour.

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const script = `
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
const [log, ...modes] = process.argv.slice(2);
const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
appendFileSync(log, "start " + process.pid + " " + child.pid + "\\n");
if (modes.includes("stubborn")) { process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); }
if (modes.includes("dies")) { console.error("no key"); process.exit(3); }
const send = (message) => { print(); process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n"); print(); };
const printed = modes.includes("prints") ? decodeURIComponent(modes[modes.indexOf("prints") + 1] ?? "") : null;
const print = () => printed === null || process.stdout.write(printed + "\\n");
print();
const text = (words, more = {}) => ({ content: [{ type: "text", text: words }], ...more });
const pending = new Map();
let begun = false;
const tools = ["add", "refuse", "break", "image", "structured", "many", "none", "exit", "garbage", "flood", "hang", "ask", "sample", "grow", "odd"];
const call = {
  add: ({ a, b }) => text(String(a + b)),
  image: () => ({ content: [{ type: "text", text: "here:" }, { type: "image", data: "AAAA", mimeType: "image/png" }] }),
  structured: () => ({ content: [], structuredContent: { b: 1, a: [true] } }),
  many: () => ({ content: [{ type: "resource", resource: { uri: "a://b", text: "inside" } }, { type: "resource", resource: { uri: "a://c", blob: "AAAA" } }, { type: "resource_link", uri: "a://d", name: "d" }, { type: "audio", data: "AA==", mimeType: "audio/wav" }] }),
  none: () => text("no such book", { isError: true }),
  grow: () => { tools.push("more"); tools.splice(tools.indexOf("odd"), 1); send({ method: "notifications/tools/list_changed" }); return text("grown"); },
  odd: () => ({ content: "text" }),
};
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params = {}, result, error } = JSON.parse(line);
  if (method === undefined) return pending.get(id)?.(result ?? error);
  const answer = (result) => send({ id, result });
  if (modes.includes("strict") && method !== "initialize" && !begun) return process.exit(1);
  begun = true;
  if (method === "initialize") return answer({ protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: "t", version: "1" }, instructions: "Use the tools." });
  if (method === "tools/list") return answer({ tools: tools.map((name) => ({ name, description: name, inputSchema: { type: "object", properties: { a: { type: "number" } } } })) });
  if (method !== "tools/call") return id === undefined ? undefined : send({ id, error: { code: -32601, message: "no such method" } });
  const ask = (method, params) => new Promise((resolve) => { pending.set("q", resolve); send({ id: "q", method, params }); });
  const { name, arguments: given } = params;
  if (name === "refuse") return send({ id, error: { code: -32602, message: "a is needed" } });
  if (name === "break") return send({ id, error: { code: -32603, message: "database is gone" } });
  if (name === "exit") { console.error("out of memory"); return process.exit(1); }
  if (name === "garbage") return process.stdout.write('{"jsonrpc": "2.0", "id": ' + id + ', "res\\n');
  if (name === "flood") { console.log("x".repeat(1000)); const more = () => { for (let at = 0; at < 500; at++) send({ method: "notifications/message", params: { level: "info", data: "x".repeat(1000) } }); setImmediate(more); }; return more(); }
  if (name === "hang") return;
  if (name === "ask") return answer(text(JSON.stringify(await ask("elicitation/create", { message: "Your name?", requestedSchema: { type: "object", properties: { name: { type: "string", default: "Ada" } }, required: ["name"] } }))));
  if (name === "sample") return answer(text(JSON.stringify(await ask("sampling/createMessage", { messages: [], maxTokens: 1 }))));
  answer(call[name](given));
});
`;

/** Returns the server's command, and a log with the processes of each started server. */
export function hostileServer(...modes: readonly string[]): { readonly address: string; readonly log: string } {
  const folder = mkdtempSync(join(tmpdir(), "mcp-server-"));
  const file = join(folder, "server.mjs");
  writeFileSync(file, script);
  const log = join(folder, "log.txt");
  writeFileSync(log, "");
  return { address: `${process.execPath} ${file} ${log} ${modes.join(" ")}`, log };
}
