// Common part of the agents in this folder, for any library: a task, one tool, and a check of the
// answer. `eval --agent-command` starts an agent for every episode, with its task in
// TRAINABLE_AGENTS_TASK; its last line is its reward.

const stock = { "The Hollow Clock": 7, "The Velvet Baker": 3, "The Distant Whale": 12, "The Paper Sailor": 0 };

/** Task from a line of tasks.jsonl; without `eval` the first one. */
export const task = JSON.parse(
  process.env.TRAINABLE_AGENTS_TASK ??
    '{"id": "clock", "question": "How many copies of The Hollow Clock are in stock?", "answer": "7"}',
);

export const instructions =
  "You work in a bookshop. Look up every title that you are asked about, one by one, and answer in one sentence.";

export const description = "How many copies of a title are in stock.";

export function lookUp(title) {
  return title in stock ? `${stock[title]} copies of ${title}` : `There is no title "${title}".`;
}

/** Prints the answer, and the reward as the last line. */
export function finish(answer) {
  console.log(answer);
  const isRight = new RegExp(`(^|\\W)${task.answer}(\\W|$)`).test(answer);
  console.log(JSON.stringify({ reward: isRight ? 1 : 0 }));
}
