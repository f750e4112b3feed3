// `tokens`: shows a conversation as the tokens that a policy would be trained on, with roles and
// loss masks. A file is treated as if the policy had sampled its answers; a run folder has the
// sampled tokens.

import { statSync } from "node:fs";
import { resolve } from "node:path";

import { Command } from "commander";

import { ConfigurationError } from "../../core/index.ts";
import { type AuditTemplateOptions, bundledChatTemplate } from "../../renderers/index.ts";
import { openRunFolder, runFacts } from "../../store/index.ts";
import { createReadableTokenizer, loadModelFolder } from "../../tokenizers/index.ts";
import { visibleJson } from "../../lib/text.ts";
import type { CliContext, RunCommand } from "../cli-context.ts";
import { readableModel, tokenizerOf } from "../../api/choose-model.ts";
import { modelPath } from "../../api/model-path.ts";
import { templateSourceOf } from "../../api/choose-template.ts";
import { addSettings, jsonOption } from "../flags.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { keyOf, readFlag, section, whole } from "../../parts/setting.ts";
import { episodeStory, type TokenStory, storyView } from "../tokens/episode-story.ts";
import { playConversation } from "../tokens/play-conversation.ts";
import { readConversation } from "../tokens/read-conversation.ts";
import { templateRemedy } from "../../api/audit-template.ts";
import { readNamedFile } from "../../api/surroundings.ts";
import { findEpisode } from "./inspect-command.ts";

type TokensFlags = {
  readonly model?: string;
  readonly template?: string;
  readonly renderer?: string;
  readonly history?: string;
  readonly thinking?: string;
  readonly templateKwargs?: string;
  readonly line?: string;
  readonly full?: boolean;
  readonly json?: boolean;
};

const ownSettings = section("Output", {
  line: whole().help("number of the conversation in a file of JSON lines (default: 1)"),
});

export function tokensCommand(run: RunCommand): Command {
  const command = new Command("tokens")
    .summary("show a conversation as tokens with roles and loss masks")
    .description(
      "Renders a conversation with the tokenizer and chat template of a model, as the loop would, and shows every token with its " +
        "id, its role and its loss mask. The file holds JSON or JSON lines in the OpenAI shape: messages, or objects with " +
        '"messages" and "tools". For a run folder, an episode is shown as it was recorded.',
    )
    .argument("<conversation>", "file with a conversation, or run folder")
    .argument("[episode]", "for a run folder: the episode's number in the list of inspect, or its id")
    .option("--model <folder>", `model folder (default: ${readableModel}, the tokenizer of the demonstrations)`)
    .option("--template <file>", "Jinja file to use instead of the model's chat template");
  addSettings(command, rolloutSettings, {
    names: ["renderer", "history", "thinking", "templateKwargs"],
    heading: "Options",
  });
  return addSettings(command, ownSettings, { heading: "Options" })
    .option("--full", "do not fold long prompts and observations")
    .addOption(jsonOption())
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents tokens conversation.json --model ./Qwen3-4B
  $ npx trainable-agents tokens dataset.jsonl --line 7 --model ./Qwen3-4B --history branch | less -R
  $ npx trainable-agents tokens runs/20260101-120000-bookshop 3`,
    )
    .action(async (conversation: string, episode: string | undefined, flags: TokensFlags) =>
      run((context) => showTokens({ conversation, episode: episode ?? null, flags }, context)),
    );
}

type Request = { readonly conversation: string; readonly episode: string | null; readonly flags: TokensFlags };

async function showTokens(request: Request, context: CliContext): Promise<number> {
  const { stdout, env, cwd } = context;
  const isFolder = statSync(resolve(cwd, request.conversation), { throwIfNoEntry: false })?.isDirectory() === true;
  const story = isFolder ? await storyOfRun(request, context) : await storyOfFile(request, context);
  if (request.flags.json === true) {
    stdout.write(`${visibleJson(JSON.stringify(story))}\n`);
    return 0;
  }
  const view = { colours: coloursFor(stdout, env), columns: stdout.columns, isFull: request.flags.full === true };
  for (const line of storyView(story, view)) stdout.write(`${line}\n`);
  return 0;
}

async function storyOfFile({ conversation, episode, flags }: Request, { cwd }: CliContext): Promise<TokenStory> {
  if (episode !== null) {
    throw new ConfigurationError(
      `Cannot show episode "${episode}" of "${conversation}": it is not a run folder; remove the episode, or name the folder of a run.`,
    );
  }
  const line = readFlag(ownSettings.line, flags.line);
  const input = await modelInput(flags, cwd);
  return playConversation(await readConversation(conversation, { cwd, line }), input);
}

async function modelInput(flags: TokensFlags, cwd: string): Promise<AuditTemplateOptions> {
  const thinking = readFlag(rolloutSettings.thinking, flags.thinking);
  const options = {
    renderer: readFlag(rolloutSettings.renderer, flags.renderer),
    history: readFlag(rolloutSettings.history, flags.history),
    thinking: thinking === null ? null : thinking === "on",
    templateKwargs: fromPlain(readFlag(rolloutSettings.templateKwargs, flags.templateKwargs)) as JsonObject,
  };
  const given = flags.template === undefined ? null : await readNamedFile(flags.template, cwd, templateRemedy);
  const named = flags.model ?? readableModel;
  if (named === readableModel) {
    const renderer = options.renderer ?? (given === null ? "qwen2.5-instruct" : null);
    return { ...options, tokenizer: createReadableTokenizer(), chatTemplate: given ?? bundledChatTemplate, renderer };
  }
  const model = await loadModelFolder(modelPath(named, cwd));
  const { tokenizer, specialTokens } = model;
  const chatTemplate = given ?? (await templateSourceOf(model, modelPath(named, cwd)));
  if (chatTemplate === null) {
    throw new ConfigurationError(
      `Cannot render with "${named}": the folder has no chat template (chat_template.jinja, or chat_template in ` +
        "tokenizer_config.json); add the file from the model's publisher.",
    );
  }
  return { tokenizer, chatTemplate, specialTokens, ...options };
}

async function storyOfRun({ conversation, episode, flags }: Request, { cwd, stderr }: CliContext): Promise<TokenStory> {
  if (episode === null) {
    throw new ConfigurationError(
      `Cannot show tokens of the whole run "${conversation}": name an episode, by its number in the list or its id.`,
    );
  }
  const unused = (["template", "renderer", "history", "thinking", "templateKwargs", "line"] as const).find(
    (name) => flags[name] !== undefined,
  );
  if (unused !== undefined) {
    throw new ConfigurationError(`Cannot use --${keyOf(unused)} with a run: its tokens are shown as they were recorded; remove it.`); // prettier-ignore
  }
  const reader = openRunFolder(resolve(cwd, conversation), {
    onTornLine: () => void stderr.write("Note: the last line of the run was cut off and is left out.\n"),
  });
  const { model } = runFacts(await reader.manifest());
  const folder = flags.model ?? model?.folder ?? null;
  const tokenizer = await tokenizerOf(folder === readableModel ? null : folder, cwd, resolve(cwd, conversation));
  const found = await findEpisode(reader, episode, conversation);
  return episodeStory(found, { tokenizer, renderer: model?.renderer ?? "unknown" });
}
