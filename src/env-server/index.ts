// Public entry: serves an environment to external programs. Each protocol has its own file: MCP and
// OpenEnv.

export { createEnvServer, type EnvServer, type EnvServerOptions } from "./env-server.ts";
export {
  EpisodeHost,
  type HostCounts,
  HostedEpisode,
  HostFullError,
  type HostOptions,
  HostRequestError,
  type OpenRequest,
} from "./episode-host.ts";
export { type FaceAnswer, type FaceRequest, McpFace, type McpFaceOptions } from "./mcp-face.ts";
