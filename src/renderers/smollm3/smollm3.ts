// The chat template of SmolLM3 as inference engines use it: a system turn of its own around the given words, which may switch
// thinking ("/think", "/no_think"). It shows no tools: they must be in the system message.

import { pythonLstrip, pythonRstrip } from "../../python-semantics/index.ts";
import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute, contains, isTruthy, methodReceiver, type TemplateValue } from "../template-values.ts";

const startToken = "<|im_start|>";
const endToken = "<|im_end|>";
const emptyThinking = "<think>\n\n</think>\n";

const thinkingInstructions =
  "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an assistant involves thoroughly " +
  "exploring questions through a systematic thinking process before providing the final precise and accurate solutions. This " +
  "requires engaging in a comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, backtracking, " +
  "and iteration to develop well-considered thinking process. Please structure your response into two main sections: Thought " +
  "and Solution using the specified format: <think> Thought section </think> Solution section. In the Thought section, detail " +
  "your reasoning process in steps. Each step should include detailed considerations such as analysing questions, summarizing " +
  "relevant findings, brainstorming new ideas, verifying the accuracy of the current steps, refining any errors, and " +
  "revisiting previous steps. In the Solution section, based on various attempts, explorations, and reflections from the " +
  "Thought section, systematically present the final solution that you deem correct. The Solution section should be logical, " +
  "accurate, and concise and detail necessary steps needed to reach the conclusion.";
const plainInstructions = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.";

export const smollm3: ChatTemplate = ({ messages, addGenerationPrompt, kwargs }) => {
  const writer = new SegmentWriter();
  const isSystem = attribute(messages[0], "role") === "system";
  const words = isSystem ? attribute(messages[0], "content") : "";
  const isThinking = thinks(words, !kwargs.has("enable_thinking") || isTruthy(kwargs.get("enable_thinking")));
  const opening = `${startToken}assistant\n${isThinking ? "" : emptyThinking}`;
  writer.begin(isSystem ? 0 : null);
  const mode = isThinking ? "/think" : "/no_think";
  writer.template(`${startToken}system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: ${mode}\n\n`);
  writer.template("## Custom Instructions\n\n");
  const instructions = methodReceiver(words, "replace").replaceAll("/no_think", "").replaceAll("/think", "");
  const shown = pythonRstrip(instructions);
  if (shown === "") writer.template(isThinking ? thinkingInstructions : plainInstructions);
  else writer.words(shown);
  writer.template(`\n\n${endToken}\n`);
  messages.forEach((message, index) => {
    const role = attribute(message, "role");
    const given = attribute(message, "content");
    const content = typeof given === "string" ? given : "";
    if (role !== "user" && role !== "assistant" && role !== "tool") return;
    writer.begin(index);
    writer.template(role === "assistant" ? opening : `${startToken}user\n`);
    writer.words(role === "assistant" ? pythonLstrip(content, "\n") : content);
    writer.template(`${endToken}\n`);
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template(opening);
  return writer.finish();
};

/** The words of a system message overrule the switch. */
function thinks(words: TemplateValue, isSwitchedOn: boolean): boolean {
  if (contains(words, "/no_think")) return false;
  return isSwitchedOn || contains(words, "/think");
}
