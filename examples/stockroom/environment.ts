// A stockroom for a real language model to learn in: an answer takes two calls in order, since
// prices and counts are found by a code that only `find_item` knows. 60 tasks to train on and 60
// held out, which share no item, no code and no number:
//   npx trainable-agents train --gguf model.gguf --env ./examples/stockroom/environment.ts --strategy act --max-turns 6

import { defineEnvironment } from "trainable-agents/environments";

type State = {
  readonly item: string;
  readonly kind: "price" | "stock";
  /** Results of the calls so far: the code of the item, and its number. */
  found: boolean;
  looked: boolean;
};
type Item = { readonly code: string; readonly price: number; readonly stock: number };

const colours = ["red", "blue", "green", "white", "black", "yellow", "grey", "brown", "pink", "golden"];
const things = "lamp chair desk clock mirror carpet vase stool shelf bench basket kettle".split(" ");

/** Every number belongs to one item only, so none is right by chance. */
const items = new Map<string, Item>(
  colours.flatMap((colour, row) =>
    things.map((thing, column) => {
      const number = row * things.length + column;
      const code = `${"ABCDEFGHKLMN"[(number * 5) % 12]}${10 + ((number * 37) % 90)}`;
      return [`${colour} ${thing}`, { code, price: 101 + ((number * 53) % 360), stock: 500 + ((number * 71) % 480) }];
    }),
  ),
);
const byCode = (code: string): Item | undefined => [...items.values()].find((item) => item.code === code);

const question = (item: string, kind: State["kind"]): string =>
  kind === "price" ? `What does the ${item} cost?` : `How many of the ${item} are in stock?`;

const tasks = [...items.keys()].map((item, number) => {
  const kind = Math.floor(number / 2) % 2 === 0 ? "price" : "stock";
  const request = question(item, kind);
  return {
    instruction: `Ask: ${request}`,
    agenda: {
      greetings: ["Hello."],
      slots: [],
      goals: [
        {
          name: kind,
          requests: [request],
          slots: [],
          confirmation: null,
          secondThought: null,
          settledBy: [String(items.get(item)![kind])],
          objections: ["I need the number."],
        },
      ],
      farewells: ["Thank you, goodbye."],
      // A small model often speaks before it has called anything; the next turn may do better.
      patience: 3,
    },
    state: { item, kind, found: false, looked: false } satisfies State,
    info: { kind },
  };
});

/** A tool that looks a number up by a code. */
const lookUp = (what: State["kind"], description: string) => ({
  description,
  parameters: { type: "object", properties: { code: { type: "string" } }, required: ["code"] } as const,
  run: ({ code }: { readonly code?: unknown }, state: State) => {
    const item = byCode(String(code));
    if (item === undefined) throw new Error(`there is no code ${String(code)}; find_item returns the code of an item`);
    if (what === state.kind && item.code === items.get(state.item)!.code) state.looked = true;
    return { code: item.code, [what]: item[what] };
  },
});

export default defineEnvironment<State>({
  name: "stockroom",
  guidelines:
    "You answer questions about a stockroom with its tools, and never from memory. Example: the customer asks what the silver sofa costs. " +
    'First call find_item with {"name": "silver sofa"}, which returns its code, such as Z99. Then call get_price with {"code": "Z99"}, ' +
    "or get_stock if the customer asks how many there are. Then tell the customer the number that it returned.",
  tools: {
    find_item: {
      description: "The code of an item.",
      parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
      run: ({ name }, state) => {
        const item = items.get(String(name));
        if (item === undefined) throw new Error(`there is no item ${String(name)}`);
        if (name === state.item) state.found = true;
        return { name, code: item.code };
      },
    },
    get_price: lookUp("price", "The price of an item, by its code."),
    get_stock: lookUp("stock", "The number of pieces in stock, by the code of an item."),
  },
  tasks: {
    train: tasks.filter((_, number) => number % 2 === 0),
    test: tasks.filter((_, number) => number % 2 === 1),
  },
  // A pass is the number, after both calls; what comes before it earns a part, so that a model that
  // never passes yet has something to compare.
  grade: ({ state, said }) => {
    const { item, kind, found, looked } = state;
    const number = new RegExp(`\\b${items.get(item)![kind]}\\b`);
    if (looked && said.some((line) => number.test(line))) return 1;
    return looked ? 0.4 : found ? 0.2 : 0;
  },
});
