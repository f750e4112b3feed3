// Policy for the permission requests of ACP agents.

/** Kinds of tool calls that an agent may carry out, as ACP names them, or all of them. */
export type AgentPermissions = "all" | readonly string[];

/** Kinds of ACP 1. A tool of an MCP server is "other" to most agents. */
export const permissionKinds = [
  ...["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"],
] as const;
