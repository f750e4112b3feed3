// Public entry of pre-training, for the scripts that check what came out. The program itself is `main.ts`.

export { testPrompts } from "./dialogues.ts";
