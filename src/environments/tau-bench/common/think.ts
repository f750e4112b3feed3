import { defineTool } from "../tool.ts";

/** Room for the model's thoughts; changes and says nothing. */
export const think = defineTool({ name: "think", parameters: ["thought"], run: () => "" });
