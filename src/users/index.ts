// The door of the room: simulated users. Which one plays an episode is chosen in the composition root.

export { humanUser, type HumanUserOptions } from "./human-user.ts";
export {
  scriptedUser,
  scriptedUsers,
  type ScriptedUser,
  type ScriptedUserSource,
  type UserStep,
} from "./scripted-user.ts";
export { stopMarker } from "./stop-marker.ts";
export type { UserFailureCode } from "./user-failure.ts";
