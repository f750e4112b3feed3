// Public entry of pre-training: models from nothing, out of conversations in a world. `main.ts` is
// the program that makes the shipped ones.

export type { Conversation, ConversationSource } from "./conversations.ts";
export { testPrompts } from "./dialogues.ts";
export { cloneFromNothing } from "./pretrain.ts";
export { ownRecipe } from "./recipe.ts";
