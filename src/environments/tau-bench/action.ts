import type { JsonObject } from "../../python-semantics/json/index.ts";

/** What an agent does: a call of a tool, or words to the customer when the name is `respond`. */
export type TauAction = {
  readonly name: string;
  /** The reference's word for arguments. */
  readonly kwargs: JsonObject;
};

/** The name under which words are an action. */
export const respondName = "respond";
