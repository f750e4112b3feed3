// Parses the till's lines back into records: the inverse of `describeRecord` in `shop.ts`, written
// against only its text. Also parses the conversation from a prompt, in ChatML with Qwen's format
// of calls and results: the expert's only source.

import { type JsonObject, JsonSyntaxError, parseJson } from "../../../python-semantics/json/index.ts";

export type Call = { readonly name: string; readonly arguments: JsonObject };

export type Line =
  | { readonly role: "member"; readonly content: string }
  | { readonly role: "desk"; readonly content: string; readonly call: Call | null }
  | { readonly role: "till"; readonly text: string };

/**
 * Reads the lines after the system message. A last open block (the generation prompt) does not
 * count as a line.
 */
export function readConversation(prompt: string): readonly Line[] {
  const lines: Line[] = [];
  const blocks = prompt.split("<|im_start|>").slice(1);
  for (const block of blocks.slice(0, -1)) {
    const [, role, body] = /^(\w+)\n([\s\S]*?)(?:<\|im_end\|>\s*)?$/.exec(block) ?? [];
    if (role === undefined || body === undefined) continue;
    if (role === "assistant") {
      lines.push({ role: "desk", content: body, call: readCall(body) });
    } else if (role === "user") {
      const results = [...body.matchAll(/<tool_response>\n([\s\S]*?)\n<\/tool_response>/g)];
      for (const [, text = ""] of results) lines.push({ role: "till", text });
      if (results.length === 0) lines.push({ role: "member", content: body });
    }
  }
  return lines;
}

/** The first call of an action, or `null`. */
function readCall(body: string): Call | null {
  const json = /<tool_call>\n([\s\S]*?)\n<\/tool_call>/.exec(body)?.[1];
  if (json === undefined) return null;
  try {
    const value = parseJson(json);
    if (!(value instanceof Map)) return null;
    const name = value.get("name");
    const args = value.get("arguments");
    return typeof name === "string" && args instanceof Map ? { name, arguments: args } : null;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

export type MemberRecord = {
  readonly type: "member";
  readonly id: string;
  readonly name: string;
  readonly tier: string;
  readonly orders: readonly { readonly id: string; readonly titles: readonly string[] }[];
  readonly card: string | null;
};
export type OrderRecord = {
  readonly type: "order";
  readonly id: string;
  readonly member: string;
  readonly status: string;
  readonly days: number;
  readonly address: string;
  readonly books: readonly EditionLine[];
  readonly total: number;
};
export type EditionLine = {
  readonly id: string;
  readonly title: string;
  readonly format: string;
  readonly price: number;
  readonly marks: string;
};
export type BookRecord = { readonly type: "book"; readonly id: string; readonly editions: readonly EditionLine[] };
export type CardRecord = {
  readonly type: "card";
  readonly id: string;
  readonly member: string;
  readonly balance: number;
};
export type TillRecord = MemberRecord | OrderRecord | BookRecord | CardRecord;

/** The record of a line, or `null` for any other text that the till prints. */
export function readRecord(text: string): TillRecord | null {
  return readMember(text) ?? readOrder(text) ?? readBook(text) ?? readCard(text);
}

function readMember(text: string): MemberRecord | null {
  const found = /^(#M\d+) (.+), (\w+)\. Orders: (.+)\. Card: (.+)\.$/.exec(text);
  if (found === null) return null;
  const [, id = "", name = "", tier = "", orders = "", card = ""] = found;
  const listed = orders === "none" ? [] : orders.split("; ");
  return {
    type: "member",
    id,
    name,
    tier,
    orders: listed.map((order) => {
      const end = order.lastIndexOf(" ");
      return { id: order.slice(end + 1), titles: order.slice(0, end).split(" and ") };
    }),
    card: card === "none" ? null : card,
  };
}

function readOrder(text: string): OrderRecord | null {
  const found = /^(#W\d+) of (?:another member, )?(#M\d+), (\w+)(.*?)\. (.+)\. Total \$(\d+)\.$/.exec(text);
  if (found === null) return null;
  const [, id = "", member = "", status = "", rest = "", books = "", total = ""] = found;
  return {
    type: "order",
    id,
    member,
    status,
    days: Number(/(\d+) days/.exec(rest)?.[1] ?? 0),
    address: /to (.+)$/.exec(rest)?.[1] ?? "",
    books: books.split("; ").flatMap(readOrderedBook),
    total: Number(total),
  };
}

function readBook(text: string): BookRecord | null {
  const found = /^([^:]+): (\w+ #B\d+, .+)\.$/.exec(text);
  if (found === null) return null;
  const [, title = "", lines = ""] = found;
  const editions = lines.split("; ").flatMap((line) => readEdition(line, title));
  return { type: "book", id: editions[0]?.id ?? "", editions };
}

function readCard(text: string): CardRecord | null {
  const found = /^(#C\d+) of (?:another member, )?(#M\d+), balance \$(\d+)\.$/.exec(text);
  if (found === null) return null;
  const [, id = "", member = "", balance = ""] = found;
  return { type: "card", id, member, balance: Number(balance) };
}

/** Reads a line of an order, such as `The Salt Key #B3306, hardcover, $12[, marks]`. */
function readOrderedBook(line: string): readonly EditionLine[] {
  const found = /^(.+) (#B\d+), (\w+), \$(\d+)(?:, (.+))?$/.exec(line);
  if (found === null) return [];
  const [, title = "", id = "", format = "", price = "", marks = ""] = found;
  return [{ id, title, format, price: Number(price), marks }];
}

/** Reads a line of a book, such as `hardcover #B3306, $12, in stock`. */
function readEdition(line: string, title: string): readonly EditionLine[] {
  const found = /^(\w+) (#B\d+), \$(\d+), (.+)$/.exec(line);
  if (found === null) return [];
  const [, format = "", id = "", price = "", marks = ""] = found;
  return [{ id, title, format, price: Number(price), marks }];
}
