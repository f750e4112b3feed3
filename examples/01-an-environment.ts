// A library desk: two tools, two tasks, a grader. Play it with
//   npx trainable-agents rollout --env ./examples/01-an-environment.ts --user agenda --engine sglang --url ... --model ...

import { defineEnvironment } from "trainable-agents/environments";

type Desk = { loans: Record<string, { title: string; daysLeft: number; renewed: boolean }> };

/** A reader who wants one loan renewed, knows its number when asked, and agrees to exactly that. */
const reader = (loan: string, title: string) => ({
  greetings: ["Good morning."],
  slots: [],
  goals: [
    {
      name: "renew",
      requests: [`I would like to keep "${title}" a little longer.`],
      slots: [{ name: "loan", askedBy: ["loan number"], answers: [`It is ${loan}.`] }],
      confirmation: { mustName: [[loan, title]], corrections: [`No, I mean "${title}".`] },
      secondThought: null,
      settledBy: ["renewed", "cannot be renewed"],
      objections: [],
    },
  ],
  farewells: ["Thank you, goodbye."],
  patience: 4,
});

export default defineEnvironment<Desk>({
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
  // Right means: every loan that could be renewed was, nothing else changed, and the reader was told something.
  grade: ({ state, initial, said }) => {
    const isRight = Object.entries(initial.loans).every(([id, loan]) => {
      const wanted = loan.renewed ? loan : { ...loan, daysLeft: loan.daysLeft + 14, renewed: true };
      return JSON.stringify(state.loans[id]) === JSON.stringify(wanted);
    });
    return isRight && said.length > 0 ? 1 : 0;
  },
});
