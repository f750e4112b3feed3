// Public entry of simulated users. The composition root chooses one per episode.

export { agendaUser } from "./agenda.ts";
export { humanUser, type HumanUserOptions } from "./human-user.ts";
export type { UserCompat } from "./strategies.ts";
export { llmUser, reactUser, reflectionUser, verifyUser, type ModelUserOptions } from "./model-user.ts";
export { ownPrompts, type ReviewInput, type UserPrompts } from "./prompts.ts";
export {
  recordingUser,
  type ExchangeSink,
  replayingUser,
  parseUserExchanges,
  type UserExchange,
} from "./recording-user.ts";
export {
  type ScriptedUser,
  scriptedUser,
  scriptedUsers,
  type ScriptedUserSource,
  type UserStep,
} from "./scripted-user.ts";
export { userNames } from "./on-demand.ts";
export { selectUser, type SelectUserOptions } from "./select-user.ts";
export { taskUser, type TaskUserOptions } from "./task-user.ts";
export { stopMarker, type UserFailureCode } from "./conversation.ts";
