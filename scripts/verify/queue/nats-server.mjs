// Real nats-servers for the verifications and benchmarks of the queue: Debian's package and a newer
// one built from the Go module, both below build/. Each runs with JetStream in its own folder, and
// can be killed, restarted, and wiped.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../../run-command.mjs";
import { CannotVerify } from "../python.mjs";
import { freePorts, startServer } from "../servers.mjs";

/** Versions by name. Debian's depends on the release (bookworm: 2.9.10). */
export const natsVersions = /** @type {const} */ (["debian", "2.11.17"]);

/** @typedef {(typeof natsVersions)[number]} NatsVersion */

const built = join(root, "build", "verify", "nats");

/**
 * Path of the program, which is installed if missing. Debian's package is unpacked and not
 * installed, so that no service starts and no permission to install is needed.
 *
 * @param {NatsVersion} version
 */
export function installNats(version) {
  const folder = join(built, version);
  const program = version === "debian" ? join(folder, "usr", "sbin", "nats-server") : join(folder, "nats-server");
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  if (version === "debian") {
    const download = () => spawnSync("apt-get", ["download", "nats-server"], { cwd: folder, encoding: "utf8" });
    let downloaded = download();
    if (downloaded.status !== 0) {
      // A fresh image has no package lists; reading them again requires root.
      spawnSync("apt-get", ["update", "-qq"], { encoding: "utf8" });
      downloaded = download();
    }
    const [archive] = readdirSync(folder).filter((name) => name.endsWith(".deb"));
    if (archive === undefined) throw cannotInstall(version, downloaded);
    const unpacked = spawnSync("dpkg", ["-x", archive, "."], { cwd: folder, encoding: "utf8" });
    if (!existsSync(program)) throw cannotInstall(version, unpacked);
  } else {
    const module = `github.com/nats-io/nats-server/v2@v${version}`;
    const env = { ...process.env, GOBIN: folder, GOFLAGS: "" };
    const installed = spawnSync("go", ["install", module], { env, encoding: "utf8" });
    if (!existsSync(program)) throw cannotInstall(version, installed);
  }
  return program;
}

/** @param {NatsVersion} version @param {import("node:child_process").SpawnSyncReturns<string>} result */
function cannotInstall(version, { error, stderr }) {
  const why = error?.message ?? stderr.trim().split("\n").at(-1) ?? "";
  const needs = version === "debian" ? "apt-get and dpkg of Debian or Ubuntu" : "Go";
  return new CannotVerify(
    `Cannot verify: nats-server (${version}) is not to be had here: ${why}; it needs ${needs} and a network.`,
  );
}

/**
 * A server that one test owns. `kill` ends it like a machine that is switched off; `start` restarts
 * it on the same port with its stored data; `wipe` deletes everything first.
 *
 * @typedef {object} NatsServer
 * @property {string} version Version that the server reports.
 * @property {number} port
 * @property {string} url Without credentials.
 * @property {() => number} pid
 * @property {() => Promise<void>} kill
 * @property {() => Promise<void>} start
 * @property {() => Promise<void>} wipe Also kills it if it runs.
 * @property {() => { user: number, system: number }} cpu Microseconds since it was started last.
 * @property {() => Promise<Record<string, unknown>>} memory The server's report on its JetStream: streams, bytes, messages.
 */

/**
 * @param {object} options
 * @param {NatsVersion} options.version
 * @param {string} options.folder Its store, its log and its configuration; made if need be.
 * @param {string} [options.config] Further lines of its configuration: TLS, users. Default: none.
 * @param {number} [options.port] Default: a free one.
 * @returns {Promise<NatsServer>}
 */
export async function startNats({ version, folder, config = "", port: chosen }) {
  const program = installNats(version);
  const [free = 0, monitor = 0] = await freePorts(2);
  const port = chosen ?? free;
  const store = join(folder, "store");
  const file = join(folder, "nats.conf");
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    file,
    `listen: "127.0.0.1:${port}"\nhttp: "127.0.0.1:${monitor}"\njetstream { store_dir: ${JSON.stringify(store)} }\n${config}\n`,
  );
  const launch = () =>
    startServer({
      name: `nats-server (${version})`,
      command: program,
      parameters: ["-c", file],
      log: join(folder, "nats.log"),
      url: `http://127.0.0.1:${monitor}`,
      readyPath: "/healthz",
      timeoutMs: 20_000,
      pollMs: 50,
    });
  let server = await launch();
  const stated = /** @type {{ version: string }} */ (await (await fetch(`${server.url}/varz`)).json());
  return {
    version: stated.version,
    port,
    url: `nats://127.0.0.1:${port}`,
    pid: () => server.pid,
    kill: () => server.kill(),
    start: async () => {
      server = await launch();
    },
    wipe: async () => {
      await server.kill();
      rmSync(store, { recursive: true, force: true });
      server = await launch();
    },
    cpu: () => cpuOf(server.pid),
    memory: async () =>
      /** @type {Promise<Record<string, unknown>>} */ ((await fetch(`http://127.0.0.1:${monitor}/jsz`)).json()),
  };
}

/**
 * Processor time of a process, in microseconds. Linux only.
 *
 * @param {number} pid
 */
export function cpuOf(pid) {
  // The second field, the name, may contain blanks and ends with a parenthesis. Ticks are
  // hundredths of a second on every Linux.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  const [user, system] = [fields[11], fields[12]].map((ticks) => Number(ticks) * 10_000);
  return { user: user ?? 0, system: system ?? 0 };
}

/**
 * Creates a certificate authority and a certificate for 127.0.0.1 signed by it, with openssl, as
 * files in a folder.
 *
 * @param {string} folder
 */
export function makeCertificates(folder) {
  mkdirSync(folder, { recursive: true });
  const at = (/** @type {string} */ name) => join(folder, name);
  const openssl = (/** @type {readonly string[]} */ parameters) => {
    const { status, error, stderr } = spawnSync("openssl", [...parameters], { encoding: "utf8" });
    if (status !== 0)
      throw new CannotVerify(`Cannot verify: openssl makes no certificate: ${error?.message ?? stderr.trim()}.`);
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  openssl(["req", "-x509", ...key, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-subj", "/CN=queue test authority"]);
  for (const [name, names] of /** @type {const} */ ([
    ["server", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
    ["client", "subjectAltName=email:worker@localhost"],
  ])) {
    writeFileSync(at(`${name}.ext`), names);
    openssl(["req", ...key, "-keyout", at(`${name}.key`), "-out", at(`${name}.csr`), "-subj", `/CN=${name}`]);
    openssl([
      ...["x509", "-req", "-in", at(`${name}.csr`), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial"],
      ...["-out", at(`${name}.pem`), "-days", "2", "-extfile", at(`${name}.ext`)],
    ]);
  }
  return {
    ca: at("ca.pem"),
    cert: at("server.pem"),
    key: at("server.key"),
    clientCert: at("client.pem"),
    clientKey: at("client.key"),
  };
}
