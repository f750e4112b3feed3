// The client of OpenEnv: environments that an openenv-core server offers over a WebSocket.

export {
  openEnvService,
  type OpenEnvOptions,
  type OpenEnvTask,
  type OpenEnvTaskList,
  seedTasks,
} from "./openenv-service.ts";
