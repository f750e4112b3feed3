// What a server is answered that asks the person in front of the client for something. There is none: by policy every request is
// declined, or answered with the defaults that its schema has. A policy, because either changes what tools do.

import { asRecord } from "./result-text.ts";

/** "decline" says no. "accept-defaults" fills a form with its defaults, and declines one that requires more, or opens a page. */
export type ElicitationPolicy = "decline" | "accept-defaults";

type Answer = { readonly action: "decline" } | { readonly action: "accept"; readonly content: object };

const decline: Answer = { action: "decline" };

export function answerElicitation(params: unknown, policy: ElicitationPolicy): Answer {
  const { mode = "form", requestedSchema } = asRecord(params) ?? {};
  const schema = asRecord(requestedSchema);
  if (policy === "decline" || mode !== "form" || schema === null) return decline;
  const entries = Object.entries(asRecord(schema["properties"]) ?? {}).flatMap(([name, property]) => {
    const initial = asRecord(property)?.["default"];
    return initial === undefined ? [] : [[name, initial] as const];
  });
  const content = Object.fromEntries(entries);
  const required = Array.isArray(schema["required"]) ? (schema["required"] as readonly unknown[]) : [];
  const isWhole = required.every((name) => typeof name === "string" && Object.hasOwn(content, name));
  return isWhole ? { action: "accept", content } : decline;
}
