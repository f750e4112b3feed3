// A library to learn from scratch: four kinds of task from a seeded generator, 600 to train on and
// 240 held out, which share no number and no title. Its expert is `expert.ts`:
//   npx trainable-agents train --env ./examples/library/environment.ts --from-expert ./examples/library/expert.ts

import { defineEnvironment } from "trainable-agents/environments";

type Library = {
  readers: Record<string, { name: string; fine: number }>;
  loans: Record<string, { title: string; days: number; isReserved: boolean }>;
  books: Record<string, { title: string; waiting: string[] }>;
  receipt: string;
  /** Expected records at the end, and the facts that the reader has to be given. */
  readonly goal: { readonly after: string; readonly told: string };
};
type Split = "train" | "validation";

export const kinds = ["due", "renew", "reserve", "fine"] as const;
const firstNames = "Ada Ben Clara David Emma Felix Grace Hugo Iris James Kate Leo".split(" ");
const lastNames = "Bell Carter Dahl Evans Finch Gray Hall Jones Kent Lund Moss North".split(" ");
const openings =
  "Salt Paper Glass Silver Winter Quiet Crooked Hollow Velvet Burning Clever Distant Early Green Iron Lost".split(" ");
const endings =
  "Moon Fox Clock Garden Orchard Piano River Station Thief Violin Whale Castle Engine Ferry Ghost Lantern".split(" ");

/** Draws combinations of a split: those whose parts add up to a multiple of four are held out. */
function drawing(split: Split, seed: number) {
  let state = (seed * 2654435761 + (split === "train" ? 1 : 2)) >>> 0;
  const used = new Set<string>();
  const below = (count: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  };
  const pair = (first: number, second: number): readonly [number, number] => {
    for (;;) {
      const [a, b] = [below(first), below(second)];
      if (((a + b) % 4 === 0) !== (split === "validation") || used.has(`${first} ${a} ${b}`)) continue;
      used.add(`${first} ${a} ${b}`);
      return [a, b];
    }
  };
  return {
    below,
    id: (kind: string): string => {
      const [high, low] = pair(90, 90);
      return `#${kind}${high + 10}${low + 10}`;
    },
    title: (): string => {
      const [a, b] = pair(openings.length, endings.length);
      return `The ${openings[a]} ${endings[b]}`;
    },
    name: (): string => {
      const [a, b] = pair(firstNames.length, lastNames.length);
      return `${firstNames[a]} ${lastNames[b]}`;
    },
  };
}

const recordsOf = ({ readers, loans, books }: Library): string => JSON.stringify({ readers, loans, books });

function makeTask(split: Split, number: number) {
  const draw = drawing(split, number);
  const kind = kinds[number % kinds.length]!;
  const isRefused = kind === "renew" && draw.below(2) === 0;
  const [reader, loan, book] = [draw.id("R"), draw.id("L"), draw.id("T")];
  const [title, other] = [draw.title(), draw.title()];
  const [days, fine] = [2 + draw.below(20), 11 + draw.below(30)];
  const queue = Array.from({ length: 1 + draw.below(4) }, () => draw.id("R"));
  const state: Library = {
    readers: {
      [reader]: { name: draw.name(), fine },
      [draw.id("R")]: { name: draw.name(), fine: 11 + draw.below(30) },
    },
    loans: {
      [loan]: { title, days, isReserved: isRefused },
      [draw.id("L")]: { title: draw.title(), days: 2 + draw.below(20), isReserved: draw.below(2) === 0 },
    },
    books: { [book]: { title: other, waiting: queue } },
    receipt: draw.id("P"),
    goal: { after: "", told: "" },
  };
  const after = structuredClone(state);
  if (kind === "renew" && !isRefused) after.loans[loan]!.days += 14;
  if (kind === "reserve") after.books[book]!.waiting.push(reader);
  if (kind === "fine") after.readers[reader]!.fine = 0;
  const told = {
    due: `${days} days`,
    renew: isRefused ? "cannot" : `${days + 14} days`,
    reserve: `number ${queue.length + 1}`,
    fine: state.receipt,
  }[kind];
  const which = draw.below(2) === 0 ? loan : "one of my books";
  const requests = {
    due: [`When must I bring back ${which}?`, `How long may I keep ${which}?`],
    renew: [`Please renew ${which}.`, `I would like to keep ${which} longer.`],
    reserve: [`I would like to reserve ${other}.`, `Please put me on the list for ${other}.`],
    fine: ["I want to pay my fine.", "I have come to pay what I owe."],
  }[kind];
  const mustName = { due: [], renew: [[loan]], reserve: [[book, other], [reader]], fine: [[`$${fine}`], [reader]] }[
    kind
  ];
  const corrections = {
    due: [],
    renew: [`No, please renew ${loan}.`],
    reserve: [`No, ${other} for ${reader}, please.`],
    fine: [`No, I am ${reader} and owe $${fine}.`],
  }[kind];
  const slots = [
    { name: "loan", phrases: ["which loan", "loan number"], answers: [`It is ${loan}.`, `${loan}.`] },
    { name: "reader", phrases: ["reader number"], answers: [`I am ${reader}.`, `${reader}.`] },
  ];
  return {
    state: { ...state, goal: { after: recordsOf(after), told } },
    info: { kind, level: isRefused ? 2 : 1, cases: [`${kind}/${isRefused ? "reserved" : "plain"}`] },
    agenda: {
      greetings: ["Hello!", "Good morning."],
      slots,
      goals: [
        {
          name: kind,
          requests,
          slots: [],
          secondThought: null,
          objections: [],
          confirmation: kind === "due" ? null : { mustName, corrections },
          settledBy: ["days", "number", "receipt", "cannot"],
        },
      ],
      farewells: ["Thank you, goodbye.", "No, that is all."],
      patience: 3,
    },
  };
}

const tasksOf = (split: Split, count: number) => Array.from({ length: count }, (_, number) => makeTask(split, number));
const text = { type: "string" };
const parameters = (properties: Record<string, unknown>) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
});
const found = <R>(records: Record<string, R>, id: unknown): R => {
  const record = Object.hasOwn(records, String(id)) ? records[String(id)] : undefined;
  if (record === undefined) throw new Error("there is no such record");
  return record;
};

export default defineEnvironment<Library>({
  name: "library",
  guidelines: `You are the desk of a library.
1. Look up what a request is about. Never invent a number.
2. Before a change say what will change and ask "Do you confirm?". Change it only after a yes.
3. Say whether a book is reserved or free. One that is reserved is not renewed.
4. Tell the days, the place in the line or the receipt, and ask "Anything else?".`,
  tools: {
    find_loan: {
      description: "Shows a loan.",
      parameters: parameters({ loan: text }),
      run: ({ loan }, { loans }) => {
        const { title, days, isReserved } = found(loans, loan);
        return `${title} ${String(loan)}, due in ${days} days, ${isReserved ? "reserved" : "free"}.`;
      },
    },
    find_reader: {
      description: "Shows a reader.",
      parameters: parameters({ reader: text }),
      run: ({ reader }, { readers }) => {
        const { name, fine } = found(readers, reader);
        return `${name} ${String(reader)}, fine $${fine}.`;
      },
    },
    find_book: {
      description: "Finds a book by its title.",
      parameters: parameters({ title: text }),
      run: ({ title }, { books }) => {
        const book = Object.entries(books).find(([, one]) => one.title === title);
        if (book === undefined) throw new Error("there is no such book");
        return `${book[1].title} ${book[0]}, on loan.`;
      },
    },
    renew: {
      description: "Renews a loan.",
      parameters: parameters({ loan: text }),
      run: ({ loan }, { loans }) => {
        const record = found(loans, loan);
        record.days += 14;
        return `${String(loan)} renewed, due in ${record.days} days.`;
      },
    },
    reserve: {
      description: "Puts a reader on a book's list.",
      parameters: parameters({ book: text, reader: text }),
      run: ({ book, reader }, { books }) => {
        const { waiting } = found(books, book);
        waiting.push(String(reader));
        return `${String(book)} reserved, number ${waiting.length} in the line.`;
      },
    },
    take_payment: {
      description: "Takes the fine of a reader.",
      parameters: parameters({ reader: text }),
      run: ({ reader }, library) => {
        const record = found(library.readers, reader);
        record.fine = 0;
        return `${String(reader)} paid, receipt ${library.receipt}.`;
      },
    },
  },
  tasks: { train: tasksOf("train", 600), validation: tasksOf("validation", 240) },
  grade: ({ state, initial, said }) => {
    const isTold = said.some((line) => line.includes(initial.goal.told));
    return recordsOf(state) === initial.goal.after && isTold ? 1 : 0;
  },
});
