// The door of the room: simulated users. Which one plays an episode is chosen in the composition root.

export { agendaUser } from "./agenda.ts";
export { humanUser, type HumanUserOptions } from "./human-user.ts";
export type { UserCompat } from "./llm-strategy.ts";
export { llmUser, reactUser, reflectionUser, verifyUser, type ModelUserOptions } from "./llm-user.ts";
export { ownPrompts, type ReviewInput, type UserPrompts } from "./prompts.ts";
export { recordingUser, type ExchangeSink } from "./recording-user.ts";
export { replayingUser } from "./replaying-user.ts";
export {
  scriptedUser,
  scriptedUsers,
  type ScriptedUser,
  type ScriptedUserSource,
  type UserStep,
} from "./scripted-user.ts";
export { selectUser, userNames, type SelectUserOptions } from "./select-user.ts";
export { stopMarker } from "./stop-marker.ts";
export { parseUserExchanges, type UserExchange } from "./user-exchange.ts";
export type { UserFailureCode } from "./user-failure.ts";
