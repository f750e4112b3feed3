// What `GET /schema` says: JSON Schemas of the actions, the observations and the state, as a client of OpenEnv expects them of a world
// with MCP tools.

const text = { type: "string" };
const anything = { type: "object", additionalProperties: true };

export const openEnvSchema = {
  action: {
    title: "CallToolAction",
    description: "Calls a tool of the environment.",
    type: "object",
    properties: {
      metadata: anything,
      type: { type: "string", const: "call_tool", default: "call_tool" },
      tool_name: text,
      arguments: anything,
    },
    required: ["tool_name"],
    additionalProperties: false,
  },
  observation: {
    title: "CallToolObservation",
    type: "object",
    properties: {
      done: { type: "boolean" },
      reward: { type: ["number", "null"] },
      tool_name: text,
      result: {},
      error: {},
    },
  },
  state: {
    title: "State",
    type: "object",
    properties: { episode_id: { type: ["string", "null"] }, step_count: { type: "integer", minimum: 0 } },
    additionalProperties: true,
  },
} as const;
