// The bank's documents, and the ways of an agent to them: in its policy, or by searches. A search
// prints the time that it took, which is always 0 here, so that episodes can be replayed.

import { isTruthy, pythonStrip } from "../../../python-semantics/index.ts";
import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { attributeError } from "../../tables/index.ts";
import { defineTool, type Method, type TaskDocuments } from "../toolkit.ts";
import { Bm25, type Hit } from "./bm25.ts";
import { Grep } from "./grep.ts";
import { fixedNumber, show } from "./python.ts";

export type Document = { readonly id: string; readonly title: string; readonly content: string };

/** Number of documents that a search shows. */
const mostHits = 10;

const inline = (documents: readonly Document[]): string =>
  documents.map(({ title, content }) => `## ${title}\n\n${content}`).join("\n\n---\n\n");

/** The policy with all documents in the place where it requests them. */
export function withDocuments(policy: string, documents: readonly Document[]): string {
  return policy.includes("{{full_knowledge_base}}")
    ? policy.replaceAll("{{full_knowledge_base}}", () => inline(documents))
    : policy;
}

/** The policy with the documents that the task requires. */
export function goldenPolicy(policy: string, documents: readonly Document[], { record }: TaskDocuments): string {
  const byTitle = new Map(documents.map((document) => [document.title, document]));
  const byId = new Map(documents.map((document) => [document.id, document]));
  const required = record.get("required_documents");
  const found = (Array.isArray(required) ? required : []).flatMap((name) =>
    typeof name === "string" ? (byTitle.get(name) ?? byId.get(name) ?? []) : [],
  );
  const text = found.length === 0 ? "(No documents provided)" : inline(found);
  return policy.replaceAll("{{required_documents}}", () => text);
}

/** The searches with the given names. Indexes are built for the first search. */
export function searchTools(documents: readonly Document[], names: readonly string[]): ReadonlyMap<string, Method> {
  let bm25: Bm25 | null = null;
  const contents = documents.map(({ content }) => content);
  const grep = new Grep(contents);
  const all: readonly Method[] = [
    defineTool("read", {
      name: "KB_search",
      className: "KBSearchMixin",
      parameters: ["query"],
      run: (_, { query }) => {
        const text = typeof query === "string" ? query : queryText(query);
        bm25 ??= new Bm25(contents);
        const hits = pythonStrip(text) === "" ? [] : bm25.search(text, mostHits);
        const shown = hits.length === 0 ? "No relevant documents found." : showHits(documents, hits);
        return `${shown}\n\n[Timing: retrieval=0ms, total=0ms]`;
      },
    }),
    defineTool("read", {
      name: "grep",
      className: "GrepMixin",
      parameters: ["pattern"],
      run: (_, { pattern }) => {
        if (typeof pattern !== "string") throw attributeError(pattern, "strip");
        const hits = pythonStrip(pattern) === "" ? [] : grep.search(pattern, mostHits);
        return hits.length === 0 ? `No matches found for pattern: ${show(pattern)}` : showHits(documents, hits);
      },
    }),
  ];
  return new Map(all.filter(({ name }) => names.includes(name)).map((tool) => [tool.name, tool]));
}

/** The text of a query of another type: a falsy one finds nothing, another one raises. */
function queryText(query: JsonValue): string {
  if (!isTruthy(query)) return "";
  throw attributeError(query, "strip");
}

function showHits(documents: readonly Document[], hits: readonly Hit[]): string {
  const shown = hits.map(({ index, score }, at) => {
    const { id, title, content } = documents[index]!;
    return `${at + 1}. ${title === "" ? "Untitled" : title}\n   ID: ${id}\n   Score: ${fixedNumber(score, 4)}\n   Content: ${content}\n`;
  });
  return shown.join("\n");
}
