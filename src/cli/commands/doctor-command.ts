// `doctor`: examines what a rollout will depend on before anything is trained: the chat template of a model folder, and a server.

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { Command, Option } from "commander";

import { ConfigurationError } from "../../core/index.ts";
import { auditTemplate, type TemplateAudit } from "../../renderers/index.ts";
import { loadModelFolder, type ModelFolder } from "../../tokenizers/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { modelPath } from "../../api/choose-model.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { examineServer, type ServerFlags } from "../doctor/examine-server.ts";
import { auditView } from "../doctor/audit-view.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { readFlag } from "../../api/setting.ts";
import type { RunCommand } from "./command-result.ts";
import { quoted } from "../rollout-display.ts";

type DoctorFlags = ServerFlags & {
  readonly template?: string;
  readonly renderer?: string;
  readonly history?: string;
  readonly thinking?: string;
};

export function doctorCommand(run: RunCommand): Command {
  return new Command("doctor")
    .summary("examine the chat template of a model, or a server, before anything is trained")
    .description(
      "template: plays small conversations with the tokenizer and the chat template of a model folder and shows: which renderer and parsers " +
        "read it and why, which messages make the template rewrite what the policy has seen or sampled, what the loop does " +
        "then, and what an answer loses when it is read and rendered again. Needs no server and no weights.\n" +
        "engine: puts the contract of engines to a running SGLang or vLLM server, whole and streamed: ids, logprobs, stops, " +
        "refusals, cancelled and aborted calls, weight versions, pauses. Samples some thousand tokens.",
    )
    .argument("<what>", "template, or engine")
    .argument("[folder]", "of a template: model folder with tokenizer.json and a chat template")
    .optionsGroup("Of a template:")
    .addOption(new Option("--template <file>", "a Jinja file in place of the folder's chat template"))
    .addOption(new Option(rolloutSettings.renderer.flag, rolloutSettings.renderer.help))
    .addOption(new Option(rolloutSettings.history.flag, `${rolloutSettings.history.help} (default: keep-reasoning)`))
    .addOption(new Option(rolloutSettings.thinking.flag, rolloutSettings.thinking.help))
    .optionsGroup("Of an engine:")
    .addOption(new Option("--url <address>", "SGLang server or router, or vLLM server, like http://router:30000"))
    .addOption(new Option("--engine <name>", "sglang or vllm (default: sglang)"))
    .addOption(new Option(rolloutSettings.apiKeyEnv.flag, rolloutSettings.apiKeyEnv.help))
    .addOption(new Option(rolloutSettings.endpoint.flag, rolloutSettings.endpoint.help))
    .addOption(new Option(rolloutSettings.turnTimeout.flag, `${rolloutSettings.turnTimeout.help} (default: 600)`))
    .addOption(
      new Option(rolloutSettings.maxContextTokens.flag, "context of the served model (default: what the server says)"),
    )
    .option("--exclusive", "nobody else uses the server: pause it, too")
    .optionsGroup("Options:")
    .option("--json", "print the outcome as JSON")
    .addHelpText(
      "after",
      `
Exit codes: 0 fit for training (a template that rewrites history is), 1 something to mend or a check that failed, 2 nothing could
be examined.

Examples:
  $ npx trainable-agents doctor template ./Qwen3-4B
  $ npx trainable-agents doctor template ./Qwen3-4B --history branch
  $ npx trainable-agents doctor template ./Qwen3-4B --template ./my-template.jinja --json
  $ npx trainable-agents doctor engine --url http://127.0.0.1:30000
  $ npx trainable-agents doctor engine --engine vllm --url http://127.0.0.1:8000 --exclusive`,
    )
    .action(async (what: string, folder: string | undefined, flags: DoctorFlags) =>
      run((context) => examine({ what, folder: folder ?? null, flags }, context)),
    );
}

async function examine(
  { what, folder, flags }: { readonly what: string; readonly folder: string | null; readonly flags: DoctorFlags },
  context: CliContext,
): Promise<number> {
  if (what === "engine")
    return examineServer({ ...flags, ...(folder === null ? {} : { url: flags.url ?? folder }) }, context);
  if (what !== "template") {
    throw new ConfigurationError(
      `Cannot examine "${what}": there are "template" and "engine"; write "doctor template ${quoted(folder ?? what)}".`,
    );
  }
  if (folder === null) {
    throw new ConfigurationError(
      'Cannot examine a template: no folder is named; write "doctor template <folder>", with a folder that has tokenizer.json.',
    );
  }
  const { cwd, stdout, env } = context;
  const thinking = readFlag(rolloutSettings.thinking, flags.thinking);
  const history = readFlag(rolloutSettings.history, flags.history);
  const model = await loadModelFolder(modelPath(folder, cwd));
  const audit = auditTemplate({
    tokenizer: model.tokenizer,
    chatTemplate: await templateOf(model, { folder, file: flags.template ?? null, cwd }),
    specialTokens: model.specialTokens,
    renderer: readFlag(rolloutSettings.renderer, flags.renderer),
    history,
    thinking: thinking === null ? null : thinking === "on",
  });
  const noted = { ...audit, notes: [...audit.notes, ...otherTemplates(model, flags.template ?? null)] };
  if (flags.json === true) stdout.write(`${JSON.stringify(noted, null, 2)}\n`);
  else stdout.write(`${auditView(noted, { title: folder, colours: coloursFor(stdout, env) }).join("\n")}\n`);
  return exitCodeOf(audit);
}

function exitCodeOf({ problems }: TemplateAudit): number {
  return problems.length === 0 ? exitCodes.done : exitCodes.failed;
}

async function templateOf(
  { chatTemplate }: ModelFolder,
  { folder, file, cwd }: { readonly folder: string; readonly file: string | null; readonly cwd: string },
): Promise<string> {
  if (file !== null) return readTemplateFile(file, cwd);
  if (chatTemplate !== null) return chatTemplate;
  throw new ConfigurationError(
    `Cannot examine the template of "${folder}": the folder has none (chat_template.jinja, or chat_template in ` +
      "tokenizer_config.json); add it, or name a file with --template.",
  );
}

/** The Jinja file that --template names. */
export async function readTemplateFile(file: string, cwd: string): Promise<string> {
  try {
    return await readFile(resolve(cwd, file), "utf8");
  } catch (error) {
    throw new ConfigurationError(
      `Cannot read "${file}": it is not there or not readable; correct --template, which names a Jinja file.`,
      { cause: error },
    );
  }
}

/** Models with several templates have one for tools under another name, which is easily missed. */
function otherTemplates({ namedTemplates }: ModelFolder, file: string | null): string[] {
  const others = [...namedTemplates.keys()].filter((name) => name !== "default");
  if (others.length === 0 || file !== null) return [];
  const names = others.map((name) => `"${name}"`).join(", ");
  return [`tokenizer_config.json has more templates (${names}); to use one, write it to chat_template.jinja.`];
}
