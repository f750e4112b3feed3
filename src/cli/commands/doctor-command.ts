// `doctor`: examines the parts that a rollout will depend on before anything is trained: the chat
// template of a model folder, an engine's server, and an environment.

import { Command } from "commander";

import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { auditTemplate, type AuditTemplateOptions } from "../../api/audit-template.ts";
import { auditEngine, type AuditEngineOptions } from "../../api/audit-engine.ts";
import {
  auditEnvironment,
  type AuditEnvironmentOptions,
  auditEnvironmentSettingNames,
  auditEnvironmentSettings,
} from "../../api/audit-environment.ts";
import { auditView } from "../display/audit-view.ts";
import { addSettings, jsonOption, shortHelp, writeJson } from "../flags.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { quoted } from "../rollout-display.ts";
import { meant } from "../../lib/nearest.ts";
import { visibleLine } from "../../lib/text.ts";

type DoctorFlags = AuditEngineOptions &
  Omit<AuditEnvironmentOptions, "env" | "onFinding"> &
  Pick<AuditTemplateOptions, "template" | "renderer" | "history" | "thinking" | "templateKwargs"> & {
    readonly json?: boolean;
  };

export function doctorCommand(run: RunCommand): Command {
  const command = new Command("doctor")
    .summary("examine a model's chat template, a server, or an environment before training")
    .description(
      "template: runs small conversations with the tokenizer and the chat template of a model folder or a GGUF file and shows: which renderer and parsers " +
        "are used and why, which messages make the template rewrite what the policy has seen or sampled, how the loop reacts " +
        "to that, and what an answer loses when it is parsed and rendered again. Needs no server and no weights.\n" +
        "engine: runs the contract of engines against a running SGLang or vLLM server, whole and streamed, or a GGUF file: ids, logprobs, stops, " +
        "refusals, cancelled and aborted calls, weight versions, pauses. Samples a few thousand tokens.\n" +
        "environment: runs an environment without a model and shows whether the same calls give the same results, whether episodes " +
        "are isolated, what the same actions earn in every task, how long steps take, and what a simulated user says.",
    )
    .argument("<what>", "template, engine, or environment")
    .argument(
      "[folder]",
      "of a template: model folder or GGUF file; of an environment: a name, a module, or an address as for --env",
    )
    .optionsGroup("Template:")
    .option("--template <file>", "Jinja file to use instead of the folder's chat template");
  addSettings(command, rolloutSettings, {
    names: ["renderer", "history", "thinking", "templateKwargs"],
    heading: "Template",
  });
  command
    .optionsGroup("Engine:")
    .option("--url <address>", "SGLang server or router, or vLLM server, like http://router:30000")
    .option("--engine <name>", "sglang or vllm (default: sglang)")
    .option("--gguf <file>", "a GGUF file in this process, in place of a server");
  addSettings(command, rolloutSettings, {
    names: ["apiKeyEnv", "engineAuthorizationEnv", "adapter", "endpoint", "turnTimeout"],
    heading: "Engine",
  });
  command
    .option(
      rolloutSettings.maxContextTokens.flag,
      "context length of the served model (default: as the server reports)",
    )
    .option(
      "--adapter-folders <a,b>",
      "one or two LoRA adapters, as the server sees their folders, to load, examine and unload",
    )
    .option("--exclusive", "the server has no other users, so pauses are tested too");
  addSettings(command, auditEnvironmentSettings);
  addSettings(command, rolloutSettings, { names: auditEnvironmentSettingNames, heading: "Environment" });
  command.optionsGroup("Options:").addOption(jsonOption());
  return shortHelp(command, [
    ...["template", "renderer", "history", "url", "engine", "apiKeyEnv", "exclusive", "maxContextTokens", "taskCount"],
    ...["callCount", "data", "split", "json"],
  ])
    .addHelpText(
      "after",
      `
Exit codes: 0 fit for training (a template that rewrites history is, warnings are), 1 something to repair, a failed check or a
fault, 2 nothing could be examined.

Examples:
  $ npx trainable-agents doctor template ./Qwen3-4B
  $ npx trainable-agents doctor template ./Qwen3-4B --history branch
  $ npx trainable-agents doctor template ./Qwen3-4B --template ./my-template.jinja --json
  $ npx trainable-agents doctor engine --url http://127.0.0.1:30000
  $ npx trainable-agents doctor engine --engine vllm --url http://127.0.0.1:8000 --exclusive
  $ npx trainable-agents doctor engine --engine vllm --url http://127.0.0.1:8000 --adapter-folders /ckpt/math-1,/ckpt/math-2
  $ npx trainable-agents doctor engine --gguf ./Qwen3-0.6B-Q8_0.gguf
  $ npx trainable-agents doctor environment ./my-env.ts
  $ npx trainable-agents doctor environment openenv:ws://127.0.0.1:8000 --env-tasks seeds:20 --task-count 2 --json`,
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
    return examineEngine({ ...flags, ...(folder === null ? {} : { url: flags.url ?? folder }) }, context);
  if (what === "environment") return examineEnvironment({ env: folder, flags }, context);
  if (what !== "template") {
    throw new ConfigurationError(
      `Cannot examine "${what}": there are "template", "engine" and "environment"; write "doctor template ${quoted(folder ?? what)}".` +
        meant(what, ["template", "engine", "environment"]),
    );
  }
  if (folder === null) {
    throw new ConfigurationError(
      'Cannot examine a template: no folder is named; write "doctor template <folder>", with a folder that has tokenizer.json.',
    );
  }
  const { cwd, stdout, env } = context;
  const audit = await auditTemplate({ ...flags, model: folder, cwd });
  if (flags.json === true) writeJson(audit, context);
  else stdout.write(`${auditView(audit, { title: folder, colours: coloursFor(stdout, env) }).join("\n")}\n`);
  return audit.problems.length === 0 ? exitCodes.done : exitCodes.failed;
}

/** Returns exit code 0 if no check failed. */
async function examineEngine(flags: DoctorFlags, context: CliContext): Promise<number> {
  const { stdout, env, drain, cancel } = context;
  const colours = coloursFor(stdout, env);
  const show = (line: string): void => void (flags.json === true ? null : stdout.write(`${line}\n`));
  const result = await auditEngine({
    ...flags,
    cwd: context.cwd,
    variables: env,
    drain,
    signal: cancel,
    onServer: ({ engine, address, contextTokens }) =>
      show(
        `${engine} at ${address}, ${contextTokens === null ? "context not known" : `${contextTokens} tokens of context`}`,
      ),
    onCheck: ({ mode, name, result: outcome, reason }) => {
      const paint = { ok: colours.green, failed: colours.red, "not applicable": colours.dim }[outcome];
      show(`  ${mode.padEnd(8)}  ${paint(outcome.padEnd(14))}  ${name}${reason === null ? "" : `: ${reason}`}`);
    },
  });
  const count = (outcome: string): number => result.checks.filter((check) => check.result === outcome).length;
  show(`${count("ok")} ok, ${count("failed")} failed, ${count("not applicable")} not applicable`);
  if (flags.json === true) writeJson(result, context);
  if (drain.aborted) return exitCodes.interrupted;
  return count("failed") === 0 ? exitCodes.done : exitCodes.failed;
}

/** Returns exit code 0 if no fault is found, regardless of warnings. */
async function examineEnvironment(
  { env, flags }: { readonly env: string | null; readonly flags: DoctorFlags },
  context: CliContext,
): Promise<number> {
  if (env === null) {
    throw new ConfigurationError(
      'Cannot examine an environment: none is named; write "doctor environment <name, module or address>", like ./my-env.ts.',
    );
  }
  const { stdout, env: variables, cwd, drain, cancel } = context;
  const colours = coloursFor(stdout, variables);
  const show = (line: string): void => void (flags.json === true ? null : stdout.write(`${visibleLine(line)}\n`));
  const { json = false, ...settings } = flags;
  const result = await auditEnvironment({
    ...settings,
    env,
    cwd,
    variables,
    signal: AbortSignal.any([drain, cancel]),
    onEnvironment: ({ name, splits, users }) => {
      const sizes = Object.entries(splits).map(([split, size]) => `${split} ${size}`);
      show(`${name}: tasks ${sizes.join(", ")}; users ${users.join(", ")}`);
    },
    onFinding: ({ check, result: outcome, text, remedy }) => {
      const paint = { ok: colours.green, warning: colours.yellow, fault: colours.red }[outcome];
      const line = visibleLine(`${text}${remedy === null ? "" : ` Remedy: ${remedy}.`}`).replaceAll("\n", " ");
      if (!json) stdout.write(`  ${paint(outcome.padEnd(7))}  ${check.padEnd(15)}  ${line}\n`);
    },
  });
  const count = (outcome: string): number => result.findings.filter((finding) => finding.result === outcome).length;
  show(`${count("ok")} ok, ${count("warning")} warnings, ${count("fault")} faults`);
  if (json) writeJson(result, context);
  if (drain.aborted) return exitCodes.interrupted;
  return count("fault") === 0 ? exitCodes.done : exitCodes.failed;
}
