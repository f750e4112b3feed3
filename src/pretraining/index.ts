// Door of pre-training: how the checkpoints of this package are made.

export { pretrain, type PretrainOptions } from "./pretrain.ts";
export { testPrompts } from "./test-prompts.ts";
export { type Recipe, recipes } from "./recipe.ts";
