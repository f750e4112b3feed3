// The client of OpenEnv: environments behind a WebSocket of openenv-core.

export { openEnvService, type OpenEnvOptions, type OpenEnvTask, seedTasks } from "./openenv-service.ts";
