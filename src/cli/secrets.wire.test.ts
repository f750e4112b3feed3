// A canary key on every way in, with servers that echo what they received. It may leave this
// process only in one header: never in a message, never in a file.

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, request as forward } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { serveEnvironment } from "../api/env-server.ts";
import { readKey, redactorFor } from "../api/secrets.ts";
import { createTestCli, readAll, runServer, type TestCli } from "./cli.test-helper.ts";

const canary = 'sk-canary/"7f3a+9"';
const users = ["", "a:", "me:", "she:"];
/** The base64 characters that depend only on the key, after a user of this length. */
const base64Of = (user: string): string =>
  btoa(user + canary).slice(Math.ceil((user.length * 8) / 6), Math.floor(((user + canary).length * 8) / 6));
const hexOf = (text: string): string => Buffer.from(text).toString("hex");
const env = { MY_KEY: canary, OPENAI_API_KEY: `other-${canary}` };

/**
 * A healthy server that answers every other request with `status` and everything it received, with
 * the key in several spellings.
 */
async function withEchoServer<T>(
  status: number,
  use: (url: string, authorizations: ReadonlySet<string>) => Promise<T>,
  says = "",
  urls: string[] = [],
): Promise<T> {
  const authorizations = new Set<string>();
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      const { authorization = "" } = request.headers;
      urls.push(request.url ?? "");
      if (request.url?.split("?")[0] === "/health") return response.writeHead(200).end();
      if (request.method === "GET") return response.writeHead(200).end('{"model_path": "m", "weight_version": "1"}');
      authorizations.add(authorization);
      const key = authorization.replace("Bearer ", "");
      const encodings = [encodeURIComponent(authorization), ...users.map((user) => btoa(user + key)), hexOf(key)];
      const words = `${says}refused key ${authorization} (${encodings.join(", ")})`;
      return response
        .writeHead(status)
        .end(JSON.stringify({ error: { message: words, detail: JSON.stringify(words) } }));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  try {
    const { port } = server.address() as AddressInfo;
    return await use(`http://127.0.0.1:${port}`, authorizations);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function expectNoCanary(cli: TestCli, ...argv: readonly string[]): Promise<{ code: number; stderr: string }> {
  const { code, stdout, stderr } = await cli.run(...argv);
  const files = [...(await readAll(cli.folder))].filter(([path]) => path.startsWith("runs/"));
  for (const [where, text] of [["stdout", stdout], ["stderr", stderr], ...files] as const) {
    const forms = [canary, JSON.stringify(canary).slice(1, -1), encodeURIComponent(canary), "canary"];
    for (const form of [...forms, ...users.map(base64Of), hexOf(canary)]) {
      expect(text.includes(form), `${where} holds ${form}`).toBe(false);
    }
  }
  return { code, stderr };
}

describe("keys", () => {
  it("of the engine reach its server and nothing else, though the server repeats them; every episode failed, so 1", async () => {
    const cli = await createTestCli(env);
    for (const status of [400, 401, 403, 422]) {
      await withEchoServer(status, async (url, authorizations) => {
        const flags = ["--url", url, "--api-key-env", "MY_KEY", "--model", "readable", "--tasks", "0-1"];
        const { code } = await expectNoCanary(cli, "rollout", ...flags, "--out", `runs/${status}`);
        expect([...authorizations]).toEqual([`Bearer ${canary}`]);
        expect(code).toBe(1);
        await expectNoCanary(cli, "inspect", `runs/${status}`, "1");
      });
    }
  });

  it("of the engine reach no other server that a request names", async () => {
    const { folder } = await createTestCli();
    await withEchoServer(400, (own, ownAuthorizations) =>
      withEchoServer(400, async (other, otherAuthorizations) => {
        const address = ["--engine", "sglang", "--url", own, "--api-key-env", "MY_KEY", "--model", "readable"];
        await runServer(
          async (service) => {
            for (const url of [own, other, `${own},${other}`]) {
              await fetch(`${service}/v1/episodes`, {
                method: "POST",
                headers: { "content-type": "application/json" },
                body: JSON.stringify({ task_index: 0, wait_seconds: 60, engine: { url } }),
              });
            }
          },
          { argv: ["serve", "--listen", "127.0.0.1:0", "--out", join(folder, "runs"), ...address], env },
        );
        expect([...ownAuthorizations][0]).toBe(`Bearer ${canary}`);
        expect([...otherAuthorizations]).toEqual([""]);
      }),
    );
  });

  it("of the user's model likewise", async () => {
    const cli = await createTestCli({ ...env, DEBUG: "1" });
    await withEchoServer(400, async (url, authorizations) => {
      const flags = ["--user", "llm", "--user-model", "m", "--user-url", `${url}/v1`, "--tasks", "0"];
      await expectNoCanary(cli, "rollout", ...flags, "--user-api-key-env", "MY_KEY", "--out", "runs/named");
      expect([...authorizations]).toEqual([`Bearer ${canary}`]);
    });
  });

  it("of the judge likewise, which another server of the same house repeats", async () => {
    const cli = await createTestCli(env);
    const use = async (url: string): Promise<void> => {
      const judge = ["--judge-model", "m", "--judge-url", url, "--judge-api-key-env", "MY_KEY"];
      const flags = ["--url", url, "--model", "readable", "--tasks", "0", "--trials", "1", "--log-json"];
      const { stderr } = await expectNoCanary(cli, "eval", ...flags, ...judge, "--out", "runs/judged");
      expect(stderr).toContain("***");
    };
    await withEchoServer(400, use, `${canary} `);
  });

  it("that were read are taken out of what was to be said before, whoever named them", () => {
    const named = { MY_KEY: canary };
    const nothing = { variables: [], urls: [] };
    const [before, other] = [redactorFor(named, nothing), redactorFor({ ...named }, nothing)];
    expect(before(canary)).toBe(canary);
    expect(readKey(named, "MY_KEY", "--judge-api-key-env")).toBe(canary);
    expect(before(`key ${canary} and ${JSON.stringify(canary)}`)).toBe('key *** and "***"');
    expect(other(canary)).toBe(canary);
  });

  it("put in the wrong place are not repeated", async () => {
    const cli = await createTestCli({ ...env, DEBUG: "1" });
    await writeFile(join(cli.folder, "key.yaml"), `api-key: ${JSON.stringify(canary)}\n`);
    await writeFile(join(cli.folder, "env.yaml"), `api-key-env: ${JSON.stringify(canary)}\n`);
    await writeFile(join(cli.folder, "extra.yaml"), `sampling-extra: ${JSON.stringify(canary)}\n`);
    const rollout = ["rollout", "--tasks", "0"];
    for (const argv of [
      [...rollout, "--api-key", canary],
      [...rollout, `--api-key=${canary}`],
      [...rollout, `--user-api-key=${canary}`],
      [...rollout, `--key=${canary}`],
      [...rollout, "--api-key-env", canary],
      [...rollout, "--user", "llm", "--user-model", "m", "--user-url", "http://h/v1", "--user-api-key-env", canary],
      [...rollout, "--sampling-extra", canary],
      [...rollout, "--url", `http://me:${encodeURIComponent(canary)}@127.0.0.1:1`, "--model", "readable"],
      [...rollout, "--url", `http://127.0.0.1:1/?key=${encodeURIComponent(canary)}`, "--model", "readable"],
      [...rollout, "--config", "key.yaml"],
      [...rollout, "--config", "env.yaml"],
      [...rollout, "--config", "extra.yaml"],
    ]) {
      const { code, stderr } = await expectNoCanary(cli, ...argv);
      expect(stderr).toContain("Cannot");
      expect(code).toBe(2);
    }
  });

  it("in a query reach the server with every request, are recorded nowhere, and are asked for when the run resumes", async () => {
    const cli = await createTestCli(env);
    const urls: string[] = [];
    await withEchoServer(
      400,
      async (url) => {
        const address = `${url}/?v=1&api_key=${encodeURIComponent(canary)}`;
        const flags = ["--url", address, "--model", "readable", "--tasks", "0", "--engine", "sglang"];
        await expectNoCanary(cli, "rollout", ...flags, "--out", "runs/q");
        const configuration: unknown = JSON.parse(await readFile(join(cli.folder, "runs/q/run.json"), "utf8"));
        expect(configuration).toMatchObject({ configuration: { url: `${url}/?v=1&api_key=***` } });
        const { code, stderr } = await expectNoCanary(cli, "rollout", "--resume", "runs/q");
        expect([code, stderr]).toEqual([2, expect.stringContaining("pass --url again, as it was")]);
        const again = await expectNoCanary(cli, "rollout", "--resume", "runs/q", "--url", address);
        expect(again.stderr).not.toContain("Cannot resume");
      },
      "",
      urls,
    );
    expect(urls.length).toBeGreaterThan(1);
    for (const seen of urls) expect(seen).toContain(`v=1&api_key=${encodeURIComponent(canary)}`);
  });

  it.each([
    ["mcp", "/mcp"],
    ["openenv", ""],
  ])(
    "in the address of an environment over %s are sent, are recorded nowhere, and are asked for when the run resumes",
    async (scheme, path) => {
      const cli = await createTestCli(env);
      const world = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", variables: {} });
      const seen = new Set<string>();
      const front = createServer((request, response) => {
        seen.add(request.url ?? "");
        const { method = "GET", headers } = request;
        const forwarded = forward(`${world.url}${request.url}`, { method, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        });
        request.pipe(forwarded);
      });
      front.on("upgrade", (request, socket, head) => {
        seen.add(request.url ?? "");
        const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${String(value)}`);
        const other = connect(Number(new URL(world.url).port), "127.0.0.1", () => {
          other.write(`GET ${request.url} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
          other.write(head);
          other.pipe(socket).on("error", () => undefined);
          socket.pipe(other);
        }).on("error", () => socket.destroy());
        socket.on("error", () => other.destroy());
      });
      await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
      try {
        const { port } = front.address() as AddressInfo;
        const address = `${scheme}:http://127.0.0.1:${port}${path}?api_key=${encodeURIComponent(canary)}`;
        const flags = ["--env", address, "--user", "agenda", "--engine", "expert", "--tasks", "0"];
        const first = await expectNoCanary(cli, "rollout", ...flags, "--out", "runs/env");
        expect([first.code, first.stderr]).toEqual([0, expect.any(String)]);
        const manifest: unknown = JSON.parse(await readFile(join(cli.folder, "runs/env/run.json"), "utf8"));
        const shown = `${scheme}:http://127.0.0.1:${port}${path}?api_key=***`;
        expect(manifest).toMatchObject({ configuration: { env: shown } });
        const { code, stderr } = await expectNoCanary(cli, "rollout", "--resume", "runs/env");
        expect([code, stderr]).toEqual([2, expect.stringContaining("pass --env again, as it was")]);
        const again = await expectNoCanary(cli, "rollout", "--resume", "runs/env", "--env", address);
        expect([again.code, again.stderr]).toEqual([0, expect.any(String)]);
        await expectNoCanary(cli, "rollout", ...flags, "--dry-run");
        // Without a name, the folder is named after the environment.
        await expectNoCanary(cli, "rollout", ...flags);
        expect(seen.size).toBeGreaterThan(0);
        for (const target of seen) expect(target).toContain(`api_key=${encodeURIComponent(canary)}`);
      } finally {
        front.closeAllConnections();
        front.close();
        await world.close();
      }
    },
    240_000,
  );

  it("of an Authorization header reach the server that they are for", async () => {
    const cli = await createTestCli({ MY_HEADER: `Basic ${btoa(canary)}`, MY_KEY: canary });
    await withEchoServer(400, async (url, authorizations) => {
      const flags = ["--url", url, "--model", "readable", "--tasks", "0", "--engine-authorization-env", "MY_HEADER"];
      await expectNoCanary(cli, "rollout", ...flags, "--out", "runs/engine");
      const user = ["--user", "llm", "--user-model", "m", "--user-url", `${url}/v1`, "--tasks", "0"];
      await expectNoCanary(cli, "rollout", ...user, "--user-authorization-env", "MY_HEADER", "--out", "runs/user");
      expect([...authorizations]).toEqual([`Basic ${btoa(canary)}`]);
      const both = await expectNoCanary(cli, "rollout", ...flags, "--api-key-env", "MY_KEY", "--out", "runs/both");
      expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("pass only one of them")]);
    });
  });

  const credentials = `http://me:${encodeURIComponent(canary)}@127.0.0.1:1`;
  it.each([
    [["--url", credentials, "--model", "readable"], "--engine-authorization-env"],
    [["--user", "llm", "--user-model", "m", "--user-url", `${credentials}/v1`], "--user-authorization-env"],
    [["--agent-model", "m", "--agent-url", `${credentials}/v1`], "--agent-authorization-env"],
    [["--judge-model", "m", "--judge-url", `${credentials}/v1`, "--ranking", "on"], "--judge-authorization-env"],
    [["--metrics", `mlflow:${credentials}`], "--metrics-authorization-env"],
    [["--env", `mcp:${credentials}/mcp`], "--env-authorization-env"],
    [["--env", `openenv:${credentials.replace("http", "ws")}/`, "--env-tasks", "seeds:2"], "--env-authorization-env"],
    [["--env", `ors:${credentials}/a`], "--env-authorization-env"],
    [["--env", `mcp:npx mcp-remote ${credentials}/mcp`, "--env-tasks", "t.jsonl"], "write its name: $NAME"],
  ])("of an address %j are refused before anything is written, with the remedy", async (flags, remedy) => {
    const cli = await createTestCli(env);
    await writeFile(join(cli.folder, "t.jsonl"), '{"id": "a", "instruction": "Go.", "grader": "./g.mjs"}\n');
    await writeFile(join(cli.folder, "g.mjs"), "export default () => 1;\n");
    const { code, stderr } = await expectNoCanary(cli, "rollout", "--tasks", "0", ...flags, "--out", "runs/none");
    expect([code, stderr]).toEqual([2, expect.stringContaining(remedy)]);
    expect(existsSync(join(cli.folder, "runs/none"))).toBe(false);
  });

  it("in addresses are not in the configuration that is shown", async () => {
    const cli = await createTestCli(env);
    const url = `http://127.0.0.1:1/?access_token=${encodeURIComponent(canary)}`;
    const { code } = await expectNoCanary(cli, "rollout", "--url", url, "--model", "readable", "--dry-run");
    expect(code).toBe(0);
    const withCredentials = ["--url", credentials, "--model", "readable", "--dry-run"];
    expect((await expectNoCanary(cli, "rollout", ...withCredentials)).code).toBe(2);
  });
});
