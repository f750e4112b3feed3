// Local servers without a reasoning parser leave the thinking of a model in its reply, where nobody else may read it.

export type SplitReply = {
  /** `null`: the reply begins with words. */
  readonly thinking: string | null;
  /** All of the reply where there is no thinking. */
  readonly words: string;
};

/** Splits off a thinking block at the start; one that does not end takes the whole reply. */
export function splitThinking(reply: string): SplitReply {
  const found = /^\s*<think>([^]*?)(<\/think>|$)/.exec(reply);
  return found === null
    ? { thinking: null, words: reply }
    : { thinking: found[1] ?? "", words: reply.slice(found[0].length) };
}
