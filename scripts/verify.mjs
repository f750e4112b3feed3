// `npm run verify -- <target>`: our own code against the real thing: programs that read our models,
// and the servers that people use. The packages of a target are installed into build/, never into
// the package. `all` runs one target after another.

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";
import { CannotVerify } from "./verify/python.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string", default: join(root, "models", "bookshop-1m") },
    prompts: { type: "string", default: "50" },
    write: { type: "boolean", default: false },
    newest: { type: "boolean", default: false },
    full: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    install: { type: "boolean", default: false },
  },
});

/**
 * Each resolves with an exit code.
 *
 * @type {Readonly<Record<string, () => Promise<number>>>}
 */
const targets = {
  transformers: () => verifyModel("transformers"),
  "llama-cpp": () => verifyModel("llama-cpp"),
  gguf: async () => (await import("./verify/gguf.mjs")).verifyGguf(positionals.slice(1)),
  router: async () => (await import("./verify/router.mjs")).verifyRouter(values),
  sglang: async () => (await import("./verify/sglang.mjs")).verifySglang(values),
  vllm: async () => (await import("./verify/vllm.mjs")).verifyVllm(values),
  templates: async () => (await import("./verify/templates.mjs")).verifyTemplates(values),
  tokenizers: async () => (await import("./verify/tokenizers.mjs")).verifyTokenizers(values),
  trainers: async () => (await import("./verify/trainers.mjs")).verifyTrainers(values),
  python: async () => (await import("./verify/python-suite.mjs")).verifyPython(),
  learning: () => runAttached([join(root, "bench", "verify-learning.mjs"), ...positionals.slice(1)]),
  node: async () => (await import("./verify/node.mjs")).verifyNode(),
  environments: async () => (await import("./verify/environments.mjs")).verifyEnvironments(values),
  gateway: async () => (await import("./verify/gateway.mjs")).verifyGateway(values),
  "gateway-training": async () => (await import("./verify/gateway-training.mjs")).verifyGatewayTraining(values),
  tau2: async () => (await import("./verify/tau2.mjs")).verifyTau2(),
  queue: async () => (await import("./verify/queue.mjs")).verifyQueue(values),
  metrics: async () => (await import("./verify/metrics.mjs")).verifyMetrics(),
  traces: async () => (await import("./verify/traces.mjs")).verifyTraces(),
  viewer: async () => (await import("./verify/viewer/index.mjs")).verifyViewer(values),
  verifiers: async () => (await import("./verify/verifiers.mjs")).verifyVerifiers(values),
  benches: async () => (await import("./verify/benches.mjs")).verifyBenches(),
  parsers: async () => (await import("./verify/parsers.mjs")).verifyParsers(values),
  "response-templates": async () => (await import("./verify/response-templates.mjs")).verifyResponseTemplates(values),
  values: async () => (await import("./verify/values.mjs")).verifyValues(values),
  encoders: async () => (await import("./verify/encoders.mjs")).verifyEncoders(values),
  families: async () => (await import("./verify/families.mjs")).verifyFamilies(values),
  "real-model": async () => (await import("./verify/real-model.mjs")).verifyRealModel(positionals[1], values),
  commands: async () => (await import("./verify/commands.mjs")).verifyCommands(),
};

/**
 * Actions of `--install`: they put the programs that a target installs into build/ before it runs.
 *
 * @type {Readonly<Record<string, () => Promise<unknown>>>}
 */
const installs = {
  "llama-cpp": async () => (await import("./verify/peers.mjs")).installLlama(),
  router: async () => (await import("./verify/router.mjs")).installRouter(values),
  python: async () => (await import("./verify/python-suite.mjs")).installPython(),
  viewer: async () => (await import("./verify/viewer/browser.mjs")).installChromium(),
  queue: async () => (await import("./verify/queue.mjs")).installQueue(),
  parsers: async () => (await import("./verify/parsers.mjs")).installParsers(values),
  "response-templates": async () => (await import("./verify/response-templates.mjs")).installResponseTemplates(),
  encoders: async () => (await import("./verify/encoders.mjs")).installEncoders(),
  families: async () => (await import("./verify/families/templates-at-hand.mjs")).installFamilies(values),
};

const usage = `Usage: npm run verify -- ${Object.keys(targets).join("|")}|all [options]
  --model <folder>, --prompts <n>, --write   of transformers and llama-cpp: what is read, how much, and whether the outcome is recorded
                                             (--write: of templates, families, response-templates and tokenizers too; of verifiers: its files become golden ones)
  --newest                                   of servers, trainers and tokenizers: the newest version on PyPI in place of the pinned one
  --full                                     of trainers: plain torch trains for 12 minutes; of gateway: coding programs as well; of environments: 50 kills;
                                             of gateway-training: also the built-in loop with its defaults;
                                             of queue: 100,000 leases for ten minutes, 1,000 kills
  --quick                                    of queue: Debian's nats-server alone, few leases, 15 kills; of viewer: three pages;
                                             of parsers: 100 random texts a name; of response-templates: 60 answers each;
                                             of encoders: 100 conversations each; of families and values: the templates of TRL alone;
                                             of real-model: trainings of 5 minutes
  <model.gguf> [folder]                      of gguf: the file, and the folder of the same model's tokenizer.json
  --install                                  of ${Object.keys(installs).join(", ")}: installs what it needs and ends
`;
/**
 * Targets that take parameters after their name, and how many the name is counted with.
 *
 * @type {Readonly<Record<string, number>>}
 */
const mostParameters = { learning: 2, "real-model": 2, gguf: 3 };
const [name = ""] = positionals;
/** Targets that are started by name only: one needs the file of a real model, one computes for hours. */
const byNameOnly = ["gguf", "real-model"];
const chosen = name === "all" ? Object.keys(targets).filter((target) => !byNameOnly.includes(target)) : [name];
if (
  positionals.length < 1 ||
  positionals.length > (mostParameters[name] ?? 1) ||
  chosen.some((one) => !Object.hasOwn(values.install ? installs : targets, one))
) {
  process.stderr.write(usage);
  process.exit(2);
}
await setUp();
/** @type {string[]} */
const failed = [];
for (const one of chosen) {
  if (chosen.length > 1) process.stdout.write(`\n=== ${one}\n`);
  try {
    if (values.install) await installs[one]?.();
    else if ((await targets[one]?.()) !== 0) failed.push(one);
  } catch (error) {
    if (!(error instanceof CannotVerify)) throw error;
    process.stderr.write(`${error.message}\n`);
    failed.push(one);
  }
}
if (chosen.length > 1)
  process.stdout.write(
    `\n${chosen.length} ${values.install ? "installed" : "verified"}, failed: ${failed.join(", ") || "none"}\n`,
  );
process.exit(failed.length === 0 ? 0 : 1);

/** @param {"transformers" | "llama-cpp"} peer */
async function verifyModel(peer) {
  const model = resolve(process.env["INIT_CWD"] ?? ".", values.model);
  return (await import("./verify/peers.mjs")).verifyPeer(peer, { ...values, model, prompts: Number(values.prompts) });
}
