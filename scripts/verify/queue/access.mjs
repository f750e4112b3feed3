// Access to a broker, and its transports: TLS with its own certificate authority, a user with a
// password, a token, an nkey, and a credentials file. Each kind of access is tried with the right
// keys and with wrong ones.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { nkeys } from "@nats-io/transport-node";
import { connectNatsWorker, coordinateNats } from "../../../dist/queue/nats/index.js";
import { exampleJob, exampleReceipt, silent } from "./examples.mjs";
import { makeCertificates, startNats } from "./nats-server.mjs";

/** @typedef {Parameters<typeof connectNatsWorker>[1]} ConnectOptions */

const secret = "s3cret/w0rd,@";

/**
 * @param {ReturnType<typeof import("../report.mjs").createReport>} report
 * @param {import("./nats-server.mjs").NatsVersion} version
 * @param {string} folder
 */
export async function verifyAccess(report, version, folder) {
  mkdirSync(folder, { recursive: true });
  const file = (/** @type {string} */ name, /** @type {string} */ content) => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const certificates = makeCertificates(join(folder, "certificates"));
  const others = makeCertificates(join(folder, "others"));
  const [user, stranger] = [nkeys.createUser(), nkeys.createUser()];
  const seedOf = (/** @type {typeof user} */ pair) => `${Buffer.from(pair.getSeed()).toString("utf8")}\n`;
  const tls = { ca: certificates.ca, cert: certificates.clientCert, key: certificates.clientKey };
  const { config: operated, credentials, strangers } = makeAccount();
  /** @type {{ name: string, config: string, scheme?: string, user?: string, right: Partial<ConnectOptions>, wrong: Partial<ConnectOptions>[] }[]} */
  const ways = [
    {
      name: "TLS with an authority of its own",
      config: `tls { cert_file: "${certificates.cert}", key_file: "${certificates.key}" }`,
      scheme: "tls",
      right: { tls: { ...tls, cert: null, key: null } },
      wrong: [{}, { tls: { ...tls, ca: others.ca, cert: null, key: null } }],
    },
    {
      name: "TLS with certificates of clients",
      config: `tls { cert_file: "${certificates.cert}", key_file: "${certificates.key}", ca_file: "${certificates.ca}", verify: true }`,
      scheme: "tls",
      right: { tls },
      wrong: [{ tls: { ...tls, cert: null, key: null } }],
    },
    {
      name: "user and password in the address",
      config: `authorization { user: ann, password: ${JSON.stringify(secret)} }`,
      user: `ann:${encodeURIComponent(secret)}@`,
      right: {},
      wrong: [{ address: "nats://ann:wr0ng-w0rd@" }, { address: "nats://" }],
    },
    {
      name: "user in the address, password beside it",
      config: `authorization { user: ann, password: ${JSON.stringify(secret)} }`,
      user: "ann@",
      right: { secret },
      wrong: [{ secret: "wr0ng-w0rd" }],
    },
    {
      name: "a token",
      config: `authorization { token: ${JSON.stringify(secret)} }`,
      right: { secret },
      wrong: [{ secret: "wr0ng-w0rd" }, {}],
    },
    {
      name: "an nkey",
      config: `authorization { users: [ { nkey: ${user.getPublicKey()} } ] }`,
      right: { credentials: file("seed.nk", seedOf(user)) },
      wrong: [{ credentials: file("stranger.nk", seedOf(stranger)) }, {}],
    },
    {
      name: "a credentials file of an account",
      config: operated,
      right: { credentials: file("user.creds", credentials) },
      wrong: [{ credentials: file("stranger.creds", strangers) }, {}],
    },
  ];
  for (const { name, config, scheme = "nats", user: inAddress = "", right, wrong } of ways) {
    await report.check(name, async () => {
      const broker = await startNats({ version, folder: join(folder, "broker"), config });
      const host = `127.0.0.1:${broker.port}`;
      try {
        const given = { address: `${scheme}://${inAddress}${host}`, waitMs: 3000, ...right };
        await sendOneJob(given);
        for (const bad of wrong) {
          const address = bad.address === undefined ? given.address : `${bad.address}${host}`;
          await refuse({ waitMs: 1000, ...bad, address });
        }
      } finally {
        await broker.wipe();
        await broker.kill();
      }
      return `one job there and back, ${wrong.length} wrong ${wrong.length === 1 ? "way" : "ways"} refused`;
    });
  }
}

/** @param {ConnectOptions} options */
async function sendOneJob(options) {
  /** @type {(receipt: unknown) => void} */
  let arrive = () => {};
  const arrived = new Promise((resolve) => (arrive = resolve));
  const queue = await coordinateNats({ ...silent, onReceipt: arrive }, options);
  const worker = await connectNatsWorker(silent, options);
  try {
    const job = exampleJob("a#0");
    await queue.submit(job);
    const [lease] = await worker.take(1);
    await lease?.done(exampleReceipt(job, "w-1"));
    await arrived;
  } finally {
    await worker.close();
    await queue.close();
  }
}

/** @param {ConnectOptions} options */
async function refuse(options) {
  /** @type {unknown} */
  let refused;
  try {
    await (await connectNatsWorker(silent, options)).close();
  } catch (error) {
    refused = error;
  }
  if (!(refused instanceof Error) || refused.name !== "ConfigurationError") {
    throw new Error(`no refusal of ${JSON.stringify(options)}: ${String(refused)}`);
  }
  if (/s3cret|wr0ng/.test(refused.message)) throw new Error(`a secret is in "${refused.message}"`);
}

/**
 * An operator with one account that may use JetStream, a user of it, and a user whose credentials
 * another account signed.
 */
function makeAccount() {
  const [operator, user] = [nkeys.createOperator(), nkeys.createUser()];
  const [account, system, other] = [nkeys.createAccount(), nkeys.createAccount(), nkeys.createAccount()];
  const unlimited = { subs: -1, data: -1, payload: -1 };
  const storage = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
  const limits = { ...unlimited, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const sign = (/** @type {typeof user} */ issuer, /** @type {typeof user} */ subject, /** @type {object} */ nats) => {
    const encode = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const claims = { jti: "A".repeat(52), iat: Math.floor(Date.now() / 1000), name: "verification" };
    const body = `${encode({ typ: "JWT", alg: "ed25519-nkey" })}.${encode({
      ...claims,
      iss: issuer.getPublicKey(),
      sub: subject.getPublicKey(),
      nats: { version: 2, ...nats },
    })}`;
    return `${body}.${Buffer.from(issuer.sign(Buffer.from(body))).toString("base64url")}`;
  };
  const file = (/** @type {typeof user} */ issuer) => {
    const jwt = sign(issuer, user, { type: "user", ...unlimited });
    const seed = Buffer.from(user.getSeed()).toString("utf8");
    return `-----BEGIN NATS USER JWT-----\n${jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`;
  };
  const permissions = { default_permissions: { pub: {}, sub: {} } };
  const vouch = (/** @type {typeof user} */ one, /** @type {object} */ own) =>
    `${one.getPublicKey()}: ${sign(operator, one, { type: "account", limits: own, ...permissions })}`;
  return {
    config: [
      `operator: ${sign(operator, operator, { type: "operator" })}`,
      "resolver: MEMORY",
      `system_account: ${system.getPublicKey()}`,
      // The system account must not have JetStream.
      `resolver_preload: { ${vouch(account, { ...limits, ...storage })}\n ${vouch(system, limits)} }`,
    ].join("\n"),
    credentials: file(account),
    strangers: file(other),
  };
}
