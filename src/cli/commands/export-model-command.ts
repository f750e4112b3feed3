// `export-model`: a model folder as one GGUF file. Samples are exported by `export`.

import { stat } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { exportGguf } from "../../learner/model/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { modelPath } from "../../api/choose-model.ts";
import type { RunCommand } from "./command-result.ts";

type ExportModelFlags = { readonly to?: string };

export function exportModelCommand(run: RunCommand): Command {
  return new Command("export-model")
    .summary("write a model folder as one GGUF file, for llama.cpp")
    .description(
      "Reads config.json, model.safetensors, tokenizer.json and tokenizer_config.json of a model that the embedded engine runs, " +
        "and writes them as GGUF with weights of 32 bits. Give llama.cpp token ids: it cuts text in another way.",
    )
    .argument("<model>", "a model folder, or a shipped model: bookshop-1m, bookshop-nano")
    .addOption(new Option("--to <file>", "the file that is written; must be new"))
    .addHelpText("after", "\nExample:\n  $ trainable-agents export-model bookshop-1m --to bookshop-1m.gguf")
    .action(async (model: string, flags: ExportModelFlags) => run((context) => exportModel(model, flags, context)));
}

async function exportModel(model: string, { to }: ExportModelFlags, { cwd, stdout }: CliContext): Promise<number> {
  if (to === undefined) {
    throw new ConfigurationError(`Cannot export "${model}": no file is named; give --to <file>.`);
  }
  const path = resolve(cwd, to);
  if ((await stat(path).catch(() => null)) !== null) {
    throw new ConfigurationError(`Cannot export "${model}": "${to}" exists; name a new file with --to.`);
  }
  await exportGguf(modelPath(model, cwd), path);
  const { size } = await stat(path);
  stdout.write(`${relative(cwd, path) || path}: ${(size / 1e6).toFixed(1)} MB\n`);
  return exitCodes.done;
}
