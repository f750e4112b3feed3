// Not a program, but the expert of `environment.ts`, which explains how to run both. It reads only
// the conversation, and forgets the third rule in two of three conversations: a clone of it renews
// reserved books, and only rewards can teach it otherwise.

import type { Expert } from "trainable-agents";

const expert: Expert = ({ messages, random }) => {
  const forgets = random() < 0.67;
  const heard = messages.flatMap((message) => (message.role === "user" ? [message.content] : []));
  const [request = ""] = heard;
  const last = (pattern: RegExp): string | undefined => heard.flatMap((line) => line.match(pattern) ?? []).at(-1);
  const results = messages.flatMap((message) => (message.role === "tool" ? [message.content] : []));
  const result = (pattern: RegExp): RegExpExecArray | undefined =>
    results.flatMap((line) => pattern.exec(line) ?? []).length === 0
      ? undefined
      : (results.map((line) => pattern.exec(line)).findLast((match) => match !== null) ?? undefined);
  const call = (name: string, args: Record<string, string>) => ({ call: { name, arguments: args } });
  const isAgreed = /^(yes|still yes)/i.test(heard.at(-1) ?? "");

  if (/fine|owe/i.test(request)) {
    const reader = last(/#R\d+/g);
    if (reader === undefined) return "Welcome! May I have your reader number?";
    const paid = result(/paid, receipt (#P\d+)/);
    if (paid !== undefined) return `Done, your receipt is ${paid[1]}. Anything else?`;
    const record = result(/fine (\$\d+)/);
    if (record === undefined) return call("find_reader", { reader });
    if (isAgreed) return call("take_payment", { reader });
    return `I will take ${record[1]} from ${reader}. Do you confirm?`;
  }
  if (/reserve|list/i.test(request)) {
    const reader = last(/#R\d+/g);
    const title = last(/The [A-Z]\w+ [A-Z]\w+/g) ?? "";
    if (reader === undefined) return "Welcome! May I have your reader number?";
    const reserved = result(/reserved, number (\d+)/);
    if (reserved !== undefined) return `Done, you are number ${reserved[1]} in the line. Anything else?`;
    const book = result(/(#T\d+), on loan/)?.[1];
    if (book === undefined) return call("find_book", { title });
    if (isAgreed) return call("reserve", { book, reader });
    return `I will reserve ${title} ${book} for ${reader}. Do you confirm?`;
  }
  const loan = last(/#L\d+/g);
  if (loan === undefined) return "Welcome! Which loan is it?";
  const renewed = result(/renewed, due in (\d+) days/);
  if (renewed !== undefined) return `Done, it is due in ${renewed[1]} days. Anything else?`;
  const record = result(/^(.+) #L\d+, due in (\d+) days, (\w+)/);
  if (record === undefined) return call("find_loan", { loan });
  const [, title, days, state] = record;
  if (/bring back|how long/i.test(request)) return `${title} is due in ${days} days. Anything else?`;
  if (isAgreed) return call("renew", { loan });
  // The facts it read come before its decision: a small model finds the reason for a decision right
  // before it, or not at all.
  if (state === "reserved" && !forgets) return `${title} is reserved: I am sorry, I cannot. Anything else?`;
  return `${title} is ${state}: I will renew ${loan}. Do you confirm?`;
};

export default expert;
