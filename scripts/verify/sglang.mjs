// `npm run verify -- sglang`: a real SGLang server on the CPU: its HTTP server, scheduler, cache
// and sampler. Packages that only CUDA needs are not installed, and its package of kernels is
// replaced by one whose calls fail; our model calls none.

import { join } from "node:path";

import { createSglangEngine } from "../../dist/engines/sglang/index.js";
import { root } from "../run-command.mjs";
import { replayProbes } from "./probes.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";
import { checkServer, contextTokens } from "./real-server.mjs";
import { createReport } from "./report.mjs";
import { freePorts, startServer } from "./servers.mjs";

const version = "0.5.23";
const folder = join(root, "models", "bookshop-1m");

/** Packages for CUDA, images and sound. */
const unused = [
  ...["cuda-python", "flash-attn-4", "flashinfer_python", "humming-kernels", "nvidia-cutlass-dsl", "nvidia-mathdx"],
  ...["nvshmem4py-cu13", "quack-kernels", "sgl-deep-ep", "sgl-deep-gemm", "sgl-flash-mla", "sglang-kernel", "tilelang"],
  ...["timm", "torchaudio", "torchcodec", "decord2", "blobfile", "deepseek-recipe", "tml-renderers", "kernels"],
  "smg-grpc-servicer",
];
const pinned = ["torch==2.13.0", "triton==3.7.1", "torchvision==0.28.0", "nvidia-nvshmem-cu13==3.4.5"];

/**
 * @param {{ readonly newest: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifySglang({ newest }) {
  const { folder: work, bin } = makeEnvironment({
    name: newest ? "sglang-newest" : "sglang",
    packages: [newest ? "sglang" : `sglang==${version}`, ...pinned.slice(1), "datasets", "modelscope", "dill"],
    overrides: [...pinned, ...unused.map((name) => `${name} ; python_version < '3'`)],
  });
  const report = createReport(
    `sglang ${versionOf(bin("python"), "sglang")}, torch ${versionOf(bin("python"), "torch")}`,
  );
  const [port = 0] = await freePorts(1);
  const { url, kill } = await startServer({
    name: "SGLang",
    command: bin("python"),
    parameters: [
      ...["-m", "sglang.launch_server", "--model-path", folder, "--host", "127.0.0.1", "--port", String(port)],
      ...[
        "--device",
        "cpu",
        "--attention-backend",
        "torch_native",
        "--sampling-backend",
        "pytorch",
        "--dtype",
        "float32",
      ],
      ...["--context-length", String(contextTokens), "--mem-fraction-static", "0.05", "--max-total-tokens", "32768"],
      ...[
        "--max-running-requests",
        "16",
        "--grammar-backend",
        "none",
        "--disable-cuda-graph",
        "--disable-overlap-schedule",
      ],
    ],
    env: {
      SGLANG_USE_CPU_ENGINE: "1",
      FLASHINFER_DISABLE_VERSION_CHECK: "1",
      HF_HUB_OFFLINE: "1",
      PYTHONPATH: join(root, "scripts", "verify", "python-packages"),
      PYTHONDONTWRITEBYTECODE: "1",
    },
    log: join(work, "server.log"),
    url: `http://127.0.0.1:${port}`,
    readyPath: "/health",
    timeoutMs: 900_000,
  });
  const post = async (/** @type {string} */ path, /** @type {unknown} */ body) => {
    const answer = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (answer.status !== 200) throw new Error(`${path} answers ${answer.status}: ${await answer.text()}`);
  };
  // The first penalty takes the server seconds.
  await post("/generate", { input_ids: [5, 6, 7], sampling_params: { max_new_tokens: 4, repetition_penalty: 1.1 } });
  await checkServer(report, {
    folder,
    url,
    flags: ["--engine", "sglang", "--url", url],
    open: (stream) => createSglangEngine({ url, stream, timeoutMs: 300_000 }),
    pauseModes: ["abort", "retract", "in-place"],
    logprobsMode: "processed",
    penalizesPrompt: false,
    updateWeights: (name) =>
      post("/update_weights_from_disk", { model_path: folder, weight_version: name, flush_cache: false }),
  });
  // This comes last, because some of the replies change the version of the weights.
  await report.check("every recorded reply", async () => {
    await post("/update_weight_version", { new_version: "default" });
    // An id outside the vocabulary crashes this server; our clients never send one.
    return replayProbes(url, {
      file: "sglang-0.5.23.jsonl",
      model: folder,
      isSent: ({ name }) => name !== "id out of vocab",
    });
  });
  await kill();
  return report.finish();
}
