// A library desk: two tools, two tasks, a grader. Run as a program, it lets a script do the right
// thing in the first task, and prints it.
// Run: npx trainable-agents example 01. With a policy, from a copy of this file:
//   npx trainable-agents rollout --env ./01-an-environment.ts --user agenda --engine embedded --model bookshop-1m

import { fileURLToPath } from "node:url";
import { defineEnvironment } from "trainable-agents/environments";
import { agendaUser } from "trainable-agents/users";

type Desk = { loans: Record<string, { title: string; daysLeft: number; renewed: boolean }> };

/**
 * A reader who requests the renewal of one loan, gives its number when asked, and agrees to exactly
 * that.
 */
const reader = (loan: string, title: string) => ({
  greetings: ["Good morning."],
  slots: [],
  goals: [
    {
      name: "renew",
      requests: [`I would like to keep "${title}" a little longer.`],
      slots: [{ name: "loan", phrases: ["loan number"], answers: [`It is ${loan}.`] }],
      confirmation: { mustName: [[loan, title]], corrections: [`No, I mean "${title}".`] },
      secondThought: null,
      settledBy: ["renewed", "cannot be renewed"],
      objections: [],
    },
  ],
  farewells: ["Thank you, goodbye."],
  patience: 4,
});

const libraryDesk = defineEnvironment<Desk>({
  name: "library-desk",
  guidelines:
    "You help readers of a library. Ask for the loan number and look the loan up. A loan can be renewed once, for 14 " +
    "days; say what you will do and wait for a yes before you renew. If it was renewed before, say that it cannot be renewed.",
  tools: {
    find_loan: {
      description: "Shows a loan.",
      parameters: { type: "object", properties: { loan: { type: "string" } }, required: ["loan"] },
      run: ({ loan }, desk) => desk.loans[String(loan)] ?? "There is no such loan.",
    },
    renew_loan: {
      description: "Renews a loan for 14 days.",
      parameters: { type: "object", properties: { loan: { type: "string" } }, required: ["loan"] },
      run: ({ loan }, desk) => {
        const found = desk.loans[String(loan)];
        if (found === undefined) throw new Error("there is no such loan");
        if (found.renewed) throw new Error("this loan was renewed before");
        Object.assign(found, { daysLeft: found.daysLeft + 14, renewed: true });
        return found;
      },
    },
  },
  tasks: {
    test: [
      { agenda: reader("L-17", "Emma"), state: { loans: { "L-17": { title: "Emma", daysLeft: 3, renewed: false } } } },
      {
        agenda: reader("L-18", "Ulysses"),
        state: { loans: { "L-18": { title: "Ulysses", daysLeft: 1, renewed: true } } },
      },
    ],
  },
  // Correct: every loan that could be renewed was, nothing else changed, and the reader was told
  // something.
  grade: ({ state, initial, said }) => {
    const isRight = Object.entries(initial.loans).every(([id, loan]) => {
      const wanted = loan.renewed ? loan : { ...loan, daysLeft: loan.daysLeft + 14, renewed: true };
      return JSON.stringify(state.loans[id]) === JSON.stringify(wanted);
    });
    return isRight && said.length > 0 ? 1 : 0;
  },
});

export default libraryDesk;

/** The steps of a good policy, one tool call or message at a time. */
async function play(): Promise<void> {
  const task = libraryDesk.taskset("test").task(0);
  const desk = libraryDesk.open(task);
  const user = agendaUser().create(task, { seed: 1 });
  console.log(`guidelines  ${desk.guidelines}\n\nuser        ${(await user.open()).text}`);
  for (const step of [
    "What is your loan number?",
    "find_loan",
    'I would renew "Emma" for 14 days. Shall I?',
    "renew_loan",
    "It is renewed.",
  ]) {
    if (desk.tools.some(({ name }) => name === step)) {
      const { text } = await desk.call({ name: step, arguments: new Map([["loan", "L-17"]]) });
      console.log(`call        ${step} {"loan": "L-17"}\nresult      ${text}`);
    } else {
      await desk.receiveUtterance(step);
      console.log(`agent       ${step}\nuser        ${(await user.reply(step)).text}`);
    }
  }
  console.log(`\nreward      ${(await desk.grade({ outcome: "completed" })).reward}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await play();
