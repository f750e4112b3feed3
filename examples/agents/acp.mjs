// An agent that speaks the Agent Client Protocol, as coding agents do. The simulated user's utterances
// are its prompts, and it finds the tools of the environment in an MCP server:
//
//   npm install @agentclientprotocol/sdk
//   npx trainable-agents eval --env bookshop --tasks 0-3 --agent-acp "node examples/agents/acp.mjs" \
//     --agent-model openai/gpt-4o-mini --trials 4

import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";

const sessions = new Map();

agent({ name: "small-agent" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: { mcpCapabilities: { http: true } },
  }))
  .onRequest(methods.agent.session.new, async ({ params: { mcpServers } }) => {
    const sessionId = crypto.randomUUID();
    const server = mcpServers.find(({ type }) => type === "http");
    const { tools } = await callMcp(server, "tools/list", {});
    sessions.set(sessionId, { server, tools, messages: [] });
    return { sessionId };
  })
  .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const { server, tools, messages } = sessions.get(sessionId);
    const update = (one) => client.notify(methods.client.session.update, { sessionId, update: one });
    const texts = prompt.flatMap((block) => (block.type === "text" ? [block.text] : []));
    // The first prompt begins with the rules of the environment.
    if (messages.length === 0 && texts.length > 1) messages.push({ role: "system", content: texts.shift() });
    messages.push({ role: "user", content: texts.join("\n") });
    for (;;) {
      const message = await answer(messages, tools);
      messages.push(message);
      if (!message.tool_calls?.length) {
        await update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: message.content ?? "" } });
        return { stopReason: "end_turn" };
      }
      for (const { id, function: call } of message.tool_calls) {
        await update({
          sessionUpdate: "tool_call",
          toolCallId: id,
          title: call.name,
          kind: "other",
          status: "pending",
        });
        const result = await callMcp(server, "tools/call", { name: call.name, arguments: JSON.parse(call.arguments) });
        await update({ sessionUpdate: "tool_call_update", toolCallId: id, status: "completed" });
        messages.push({ role: "tool", tool_call_id: id, content: result.content.map(({ text }) => text).join("\n") });
      }
    }
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

async function answer(messages, tools) {
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${process.env.OPENAI_API_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "gpt-4o-mini",
      messages,
      tools: tools.map(({ name, description, inputSchema }) => ({
        type: "function",
        function: { name, description, parameters: inputSchema },
      })),
    }),
  });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()).choices[0].message;
}

/** A request of the revision of MCP that needs no session. */
async function callMcp({ url }, method, params) {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...(params.name === undefined ? {} : { "mcp-name": params.name }),
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: crypto.randomUUID(),
      method,
      params: {
        ...params,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientInfo": { name: "small-agent", version: "1" },
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    }),
  });
  const { result, error } = await response.json();
  if (error) throw new Error(error.message);
  return result;
}
