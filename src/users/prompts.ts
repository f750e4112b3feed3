// Prompts that make a model act as a user, in our own wording, as values: an environment with its
// own prompts (a τ-bench checkout, for example) replaces them. The flow of messages is decided by
// the strategies, not here.

import { stopMarker } from "./conversation.ts";

/** Input of a checker or a reflection. */
export type ReviewInput = {
  /** `null` when the conversation has none (only in upstream's discarded rehearsals). */
  readonly instruction: string | null;
  /** The conversation so far, one `Label: text` per line. */
  readonly transcript: string;
  /** The line under review. */
  readonly response: string;
};

export type UserPrompts = {
  /** Made-up utterance of the agent before the user's first line; the real agent never sees it. */
  readonly greeting: string;
  readonly system: (instruction: string | null) => string;
  /** Asks for a thought before each line, under the headings `Thought:` and `User Response:`. */
  readonly reactSystem: (instruction: string | null) => string;
  /** Asks if the response is fit to be sent; the answer says true or false. */
  readonly check: (input: ReviewInput) => string;
  /**
   * Asks for the fault of a refused response, under `Reflection:`, and for a better one, under
   * `Response:`.
   */
  readonly reflect: (input: ReviewInput) => string;
};

const role = (instruction: string | null): string =>
  "You play a customer who writes to a customer service agent. Every message you are sent was written by the agent, and " +
  "everything you answer goes to the agent.\n" +
  (instruction === null ? "" : `\nWho you are and what you are here for:\n${instruction}\n`);

const conduct = `- Let the agent lead: tell it what this step needs, and keep the rest for when it matters.
- You know only what is written above. Asked for anything else (a number, a date, an address), say that you do not know it or do not have it at hand.
- Say things in your own words instead of quoting the text above, and keep the mood and manners it gives you.
- As long as the agent still has something to carry out for you, the conversation goes on. Once everything is done, or it is clear that it will not be done, send ${stopMarker} and nothing else.`;

const review = (instruction: string | null, transcript: string, response: string): string =>
  (instruction === null ? "" : `What the customer was told:\n${instruction}\n\n`) +
  `The conversation so far:\n${transcript}\n\nThe customer's next message:\n${response}\n\n`;

/** Our own wording. */
export const ownPrompts: UserPrompts = Object.freeze({
  greeting: "Hello, this is customer service. What can I do for you?",
  system: (instruction: string | null) =>
    `${role(instruction)}\nHow you play:\n- One message at a time, short, as a customer would type it.\n${conduct}`,
  reactSystem: (instruction: string | null) =>
    `${role(instruction)}\nHow you play:\n- Think before each message: what has happened, and what would this customer say now? ` +
    "The agent does not see your thought.\n- Then write one message, short, as a customer would type it.\n" +
    `${conduct}\n\nAnswer in this form and in no other:\nThought:\n<your thought>\n\nUser Response:\n<your message>`,
  check: ({ instruction, transcript, response }: ReviewInput) =>
    "A model plays a customer in a rehearsal of customer service. You see to it that it plays the part it was given.\n\n" +
    review(instruction, transcript, response) +
    "May this message be sent? It may not when it contradicts what the customer was told, claims facts that were not " +
    `given, speaks as the agent, or ends the conversation (${stopMarker}) while something is still open. ` +
    'Answer with one word: "true" when it may be sent, "false" when it may not.',
  reflect: ({ instruction, transcript, response }: ReviewInput) =>
    "A model plays a customer in a rehearsal of customer service. Its next message was refused, because it does not fit " +
    `the part.\n\n${review(instruction, transcript, response)}` +
    "Say in a sentence or two what is wrong with it, then write the message that the customer should send instead.\n\n" +
    "Answer in this form and in no other:\nReflection:\n<what is wrong>\n\nResponse:\n<the better message>",
});
