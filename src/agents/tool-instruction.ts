// The words that tell a policy how to use tools. They take the place of the template's own sentence, which invites
// several calls a turn: environments carry out one.

/** The sentence of the Qwen templates that the instruction replaces. */
const replacedSentence = "You may call one or more functions to assist with the user query.";

export const defaultToolInstruction =
  "In every turn, call at most one function. " +
  "Only a function call changes anything: to make, modify or cancel something, call the function that does it. " +
  "The result of a call is shown to you before your next turn; " +
  "never tell the user that something is done before a result says so.";

/** The edit for a renderer's `promptEdits` that puts an instruction in place. */
export function toolInstructionEdit(instruction: string = defaultToolInstruction): {
  readonly replace: string;
  readonly with: string;
} {
  return { replace: replacedSentence, with: instruction };
}
