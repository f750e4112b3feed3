// Reads the till's lines back into records: the mirror of `describe.ts`, written against its text alone.

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
