// Requests for all kinds of targets that a socket can carry, to every server that a command starts:
// none is answered as if the server had failed, and all servers keep answering.

import { connect } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTestCli, runServer } from "./cli.test-helper.ts";

/** The status of the answer; `null` if the connection was closed without one. */
function statusOf(base: string, target: string, method: string): Promise<number | null> {
  const { hostname, port, host } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) });
    let answer = "";
    socket.setTimeout(10_000, () => socket.destroy(new Error(`no answer to ${JSON.stringify(target)}`)));
    socket.setEncoding("latin1").on("data", (text: string) => (answer += text));
    socket.on("error", (error: NodeJS.ErrnoException) => (error.code === "ECONNRESET" ? resolve(null) : reject(error)));
    socket.on("close", () => resolve(/^HTTP\/1\.1 (\d+)/.test(answer) ? Number(answer.slice(9, 12)) : null));
    socket.end(
      Buffer.from(
        `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`,
        "latin1",
      ),
    );
  });
}

const known = [
  "//", "///", "//x", "/", "*", "/%", "/%ff", "/%00", "/..%2f..", "/?%", "/?#", "//?x", "http://", "http:///", "http://[", "http://a:99999/", "x:y", "/\\", "\\", "/api/rows?run=%ed%a0%80", "/api//", "//api/rows",
  "/api/__proto__", "/api/episode?run=0&id=%00", "/api/rows?run=0&where=__proto__", "/v1/sessions/%", "/v1/sessions/__proto__", "/s//mcp", "/s/%/mcp", "/v1//chat/completions", "/mcp?x=%", "/:80", "/@:",
]; // prettier-ignore
const part = fc.oneof(
  fc.constantFrom("/", "//", "%", "%2f", "?", "#", ":", "@", "[", "]", "\\", "..", "api", "v1", "s", "mcp", "__proto__", "%ff", "http:", "*", "\u00ff", "=", "&", "{", "|", "^", "`", '"', "<"),
  fc.string({ unit: fc.constantFrom("a", "0", "-", "~", "%", "/"), maxLength: 5 }),
); // prettier-ignore
const target = fc.array(part, { minLength: 1, maxLength: 8 }).map((parts) => parts.join("")).filter((text) => text !== ""); // prettier-ignore

async function attack(url: string): Promise<void> {
  const check = async (attacked: string, method: string): Promise<void> => {
    const status = await statusOf(url, attacked, method);
    if (status !== null) expect([attacked, method, status < 500 || status === 501]).toEqual([attacked, method, true]);
  };
  for (const one of known) for (const method of ["GET", "POST"]) await check(one, method);
  for (const one of ["//", "///", "//x"]) expect([one, await statusOf(url, one, "GET")]).toEqual([one, expect.toBeOneOf([400, 401, 403, 404])]); // prettier-ignore
  await fc.assert(
    fc.asyncProperty(target, fc.constantFrom("GET", "POST", "DELETE"), (one, method) => check(one, method)),
    { numRuns: 150 },
  );
}

describe("hostile request targets", () => {
  it.each([
    ["gateway", ["gateway", "--engine", "expert", "--env", "bookshop", "--port", "0", "--out", "run"]],
    ["serve", ["serve", "--engine", "expert", "--env", "bookshop", "--port", "0", "--out", "run"]],
    ["env-server", ["env-server", "--env", "bookshop", "--port", "0"]],
    ["engine", ["engine", "--port", "0"]],
  ])("at %s", async (_name, argv) => {
    await runServer((url) => attack(url.split("\n")[0]!), { argv });
  });

  it("at view", async () => {
    const cli = await createTestCli();
    const { code, stderr } = await cli.run("rollout", "--engine", "expert", "--tasks", "0", "--out", "run");
    expect([code, stderr.includes("error")]).toEqual([0, false]);
    await runServer((url) => attack(url), { argv: ["view", `${cli.folder}/run`, "--port", "0"] });
  });
});
