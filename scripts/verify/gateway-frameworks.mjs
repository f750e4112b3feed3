// Agent frameworks as clients of the gateway, in addition to the client libraries of `gateway.mjs`:
// each has its own packages, because they require different versions of the same ones, and those
// that need a newer Node run on npm's `node` package.

import { cpSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";
import { installNode } from "./node.mjs";
import { installPackages } from "./npm.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";

/**
 * A program in `gateway-clients`, the command that runs it and its working folder. `leastCalls`:
 * minimum tool calls, lower if the client shows results in a form that the scripted policy cannot
 * read.
 *
 * @typedef {{ name: string, command: string, program: string, more: readonly string[], folder: string, leastCalls?: number }} Client
 */

const langGraph = {
  "@langchain/core": "1.4.0",
  "@langchain/langgraph": "1.7.3",
  "@langchain/openai": "1.6.0",
  langchain: "1.5.14",
};
const mastra = { "@ai-sdk/openai-compatible": "3.0.92", "@mastra/core": "1.71.0", zod: "4.6.7" };

/** Python clients: name, program, the package whose version is shown, installed packages. */
const inPython = /** @type {const} */ ([
  ["litellm", "litellm_chat.py", "litellm", ["litellm==1.110.2"]],
  ["Pydantic AI", "pydantic_ai_agent.py", "pydantic-ai-slim", ["pydantic-ai-slim[openai]==2.68.0"]],
  ["Strands Agents", "strands_agent.py", "strands-agents", ["strands-agents[openai]==1.62.0"]],
  ["Google ADK", "adk_agent.py", "google-adk", ["google-adk==2.13.0", "litellm==1.110.2"]],
]);

/** @returns {Promise<readonly Client[]>} */
export async function installFrameworks() {
  const programs = join(root, "scripts", "verify", "gateway-clients");
  /** @type {Client[]} */
  const clients = [];
  const langGraphFolder = await installPackages("verify-gateway-langgraph", langGraph);
  const mastraFolder = await installPackages("verify-gateway-mastra", mastra);
  for (const folder of [langGraphFolder, mastraFolder]) cpSync(programs, folder, { recursive: true });
  clients.push(
    {
      name: `LangGraph ${langGraph["@langchain/langgraph"]}`,
      command: process.execPath,
      program: "langgraph.mjs",
      more: [],
      folder: langGraphFolder,
    },
    {
      name: `Mastra ${mastra["@mastra/core"]}`,
      command: installNode("24"),
      program: "mastra.mjs",
      more: [],
      folder: mastraFolder,
    },
  );
  for (const [name, program, shown, packages] of inPython) {
    const { bin } = makeEnvironment({ name: `gateway-${program.replace(/\.py$/, "")}`, packages });
    const command = bin("python");
    clients.push({
      name: `${name} ${versionOf(command, shown)}`,
      command,
      program,
      more: [],
      folder: langGraphFolder,
      // It wraps every result in an object.
      ...(program === "adk_agent.py" ? { leastCalls: 1 } : {}),
    });
  }
  return clients;
}
