// `engine`: the embedded model as a server that speaks SGLang's protocol, so that any client of
// SGLang can be tried against a real sampler on a laptop. Composition only: the engine samples, the
// protocol front checks and answers.

import { Command } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { loadEmbeddedEngine } from "../../engines/embedded/index.ts";
import { shippedCheckpoints } from "../../learner/model/index.ts";
import { createSglangFront } from "../../testing/index.ts";
import { loadTokenizer } from "../../tokenizers/index.ts";
import { type CliContext, exitCodes, type RunCommand, untilAborted } from "../cli-context.ts";
import { readEndTokens } from "../../api/choose-model.ts";
import { modelPath } from "../../api/model-path.ts";
import { readKey } from "../../api/secrets.ts";
import { listenSettings, readListen } from "../../api/listen.ts";
import { readFlags, section, whole } from "../../parts/setting.ts";
import { isLoopback } from "../../lib/address.ts";
import { addSettings } from "../flags.ts";
import { quoted } from "../rollout-display.ts";

type EngineFlags = {
  readonly model: string;
  readonly listen?: string;
  readonly host?: string;
  readonly port?: string;
  readonly threads?: string;
  readonly apiKeyEnv?: string;
  readonly weightVersion: string;
};

const engineFlags = {
  ...listenSettings("Options", 30_000, "address to listen on for requests"),
  ...section("Options", {
    threads: whole(null, { min: 1, max: 64 }).help("worker threads (default: one per core, at most 8)"),
  }),
};

export function engineCommand(run: RunCommand): Command {
  const command = new Command("engine")
    .summary("serve the embedded model over SGLang's protocol")
    .description(
      "Serves a small language model of this package, or one of the same kind from a folder, on the CPU: /generate (JSON and " +
        "server-sent events), /health, /ready, /model_info, /server_info, /abort_request, /pause_generation, " +
        "/continue_generation, /update_weights_from_disk, /update_weight_version, /flush_cache, /v1/models. Requests are " +
        "checked as strictly as SGLang 0.5.23 checks them.",
    )
    .option(
      "--model <folder>",
      `model folder in Hugging Face's layout (Qwen3), or a shipped model: ${shippedCheckpoints.join(", ")}`,
      shippedCheckpoints[0],
    );
  return addSettings(command, engineFlags)
    .option("--api-key-env <variable>", "environment variable with the key that clients must send")
    .option("--weight-version <name>", "name of the initial weights", "default")
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents engine
  $ npx trainable-agents rollout --url http://127.0.0.1:30000 --model bookshop-1m --group-size 8`,
    )
    .action(async (flags: EngineFlags) => run((context) => serve(flags, context)));
}

async function serve(flags: EngineFlags, context: CliContext): Promise<number> {
  const { stdout, stderr, drain, cancel, cwd } = context;
  const { threads } = readFlags(engineFlags, flags);
  const { host, port } = readListen(engineFlags, flags);
  const apiKey = readKey(context.env, flags.apiKeyEnv ?? null, "--api-key-env");
  if (apiKey === null && !isLoopback(host)) {
    throw new ConfigurationError(
      `Cannot listen on ${host} without a key: others on the network could use the server and change its weights; pass --api-key-env <variable>.`,
    );
  }
  const folder = modelPath(flags.model, cwd);
  const [endTokenIds, tokenizer] = [await readEndTokens(folder), await loadTokenizer(folder)];
  // The front names the weights: the engine would overwrite the name that a trainer has set since
  // with the first one.
  const engine = await loadEmbeddedEngine(folder, threads === null ? {} : { threads });
  try {
    const { contextLength, vocabularySize } = engine.config;
    const front = createSglangFront({
      sampler: engine.sampler,
      tokenizer,
      endTokenIds,
      modelPath: folder,
      contextLength,
      vocabularySize,
      weightVersion: flags.weightVersion,
      apiKey,
      refusesStrangers: apiKey === null,
    });
    const listener = await front.listen({ host, port }).catch((cause: unknown) => {
      const { code, message } = cause as NodeJS.ErrnoException;
      const reason = code === "EADDRINUSE" ? "the port is taken" : message;
      throw new ConfigurationError(
        `Cannot listen on ${host}:${port}: ${reason}; choose another with --port, or 0 for a free one.`,
        { cause },
      );
    });
    try {
      stdout.write(`${listener.url}\n`);
      stderr.write(
        `Serving ${flags.model} (${contextLength} tokens of context); Ctrl-C ends it.\n` +
          `Try: ${context.program} rollout --url ${listener.url} --model ${quoted(flags.model)}\n`,
      );
      await untilAborted(drain, cancel);
      if (cancel.aborted) stderr.write("Closing.\n");
      else {
        stderr.write("Closing: running requests are answered, new ones are not; Ctrl-C again ends at once.\n");
        await Promise.race([listener.drain(), untilAborted(cancel)]);
      }
      return exitCodes.done;
    } finally {
      await listener.close();
    }
  } finally {
    await engine.close();
  }
}
