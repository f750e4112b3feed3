// Reads the till's lines back into records: the mirror of `describeRecord` in `shop.ts`, written against its text alone. And
// the conversation as a prompt shows it, in ChatML with Qwen's way of writing calls and results: the expert knows nothing else.

import { type JsonObject, JsonSyntaxError, parseJson } from "../../../python-semantics/json/index.ts";

export type Call = { readonly name: string; readonly arguments: JsonObject };

export type Line =
  | { readonly role: "member"; readonly words: string }
  | { readonly role: "desk"; readonly words: string; readonly call: Call | null }
  | { readonly role: "till"; readonly text: string };

/** Reads the lines after the system message. A last open block (the generation prompt) is no line. */
export function readConversation(prompt: string): readonly Line[] {
  const lines: Line[] = [];
  const blocks = prompt.split("<|im_start|>").slice(1);
  for (const block of blocks.slice(0, -1)) {
    const [, role, body] = /^(\w+)\n([\s\S]*?)(?:<\|im_end\|>\s*)?$/.exec(block) ?? [];
    if (role === undefined || body === undefined) continue;
    if (role === "assistant") {
      lines.push({ role: "desk", words: body, call: readCall(body) });
    } else if (role === "user") {
      const results = [...body.matchAll(/<tool_response>\n([\s\S]*?)\n<\/tool_response>/g)];
      for (const [, text = ""] of results) lines.push({ role: "till", text });
      if (results.length === 0) lines.push({ role: "member", words: body });
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

/** The record of a line, or `null` for anything else that a till may print. */
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
    orders: listed.map((order) => ({ id: order.slice(0, order.indexOf(" ")), titles: afterSpace(order).split(", ") })),
    card: card === "none" ? null : card,
  };
}

function readOrder(text: string): OrderRecord | null {
  const found = /^(#W\d+) of (#M\d+), (\w+)(.*?)\. (.+)\. Total \$(\d+)\.$/.exec(text);
  if (found === null) return null;
  const [, id = "", member = "", status = "", rest = "", books = "", total = ""] = found;
  return {
    type: "order",
    id,
    member,
    status,
    days: Number(/(\d+) days/.exec(rest)?.[1] ?? 0),
    address: /to (.+)$/.exec(rest)?.[1] ?? "",
    books: books.split("; ").flatMap((book) => readEditionLine(book, "")),
    total: Number(total),
  };
}

function readBook(text: string): BookRecord | null {
  const found = /^(#B\d+) (.+?), (.+?)\.(?: Also: (.+)\.)?$/.exec(text);
  if (found === null) return null;
  const [, id = "", title = "", line = "", others] = found;
  const editions = [`${id} ${line}`, ...(others?.split("; ") ?? [])].flatMap((one) => readEditionLine(one, title));
  return { type: "book", id, editions };
}

function readCard(text: string): CardRecord | null {
  const found = /^(#C\d+) of (#M\d+), balance \$(\d+)\.$/.exec(text);
  if (found === null) return null;
  const [, id = "", member = "", balance = ""] = found;
  return { type: "card", id, member, balance: Number(balance) };
}

/** `#B3306 [title, ]format, $12[, marks]`; the title is missing in lists of one title's editions. */
function readEditionLine(line: string, knownTitle: string): readonly EditionLine[] {
  const found = /^(#B\d+) (?:(.+), )?(\w+), \$(\d+)(?:, (.+))?$/.exec(line);
  if (found === null) return [];
  const [, id = "", title, format = "", price = "", marks = ""] = found;
  return [{ id, title: title ?? knownTitle, format, price: Number(price), marks }];
}

function afterSpace(text: string): string {
  return text.slice(text.indexOf(" ") + 1);
}
