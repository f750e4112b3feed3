// The bank with its documents: both sides share one database; the agent has few tools at first, and
// finds the names of the others, and the rules, in the documents. Loaded only when it is opened.

import { ConfigurationError, messageOf } from "../../../core/failure.ts";
import { type JsonObject, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import type { DatabaseSpec } from "../database.ts";
import type { Retrieval } from "../options.ts";
import { defineToolkit, type Domain, type LoadedKnowledge, type Toolkit } from "../toolkit.ts";
import { accountTools } from "./account-tools.ts";
import { customerTools, discoveryTools } from "./agent-tools.ts";
import { creditCardTools } from "./credit-card-tools.ts";
import { creditLimitTools } from "./credit-limit-tools.ts";
import { debitCardStateTools } from "./debit-card-states.ts";
import { debitCardTools } from "./debit-card-tools.ts";
import { disputeTools } from "./dispute-tools.ts";
import { type Document, goldenPolicy, searchTools, withDocuments } from "./documents.ts";
import { ToolDocs } from "./tool-docs.ts";
import { userMethods } from "./user-tools.ts";

const tables = [
  "users",
  "accounts",
  "debit_cards",
  "referrals",
  "credit_card_applications",
  "user_discoverable_tools",
  "user_discoverable_tool_calls",
  "verification_history",
  "credit_card_transaction_history",
  "cash_back_disputes",
  "bank_account_transaction_history",
  "credit_card_accounts",
  "agent_discoverable_tools",
  "task_config",
  "human_transfer_requests",
  "transaction_disputes",
  "credit_card_orders",
  "debit_card_orders",
  "credit_card_closure_reasons",
  "credit_card_account_flags",
  "credit_limit_increase_requests",
  "payment_history",
  "debit_card_disputes",
];

const database: DatabaseSpec = {
  name: "TransactionalDB",
  tables: Object.fromEntries(tables.map((name) => [name, { kind: "noted" }])),
};

/** The policy's file and the searches of each way to the documents. */
const retrievals: Readonly<Record<Retrieval, { readonly policy: string; readonly searches: readonly string[] }>> = {
  no_knowledge: { policy: "no_knowledge", searches: [] },
  full_kb: { policy: "full_kb", searches: [] },
  golden_retrieval: { policy: "required_docs", searches: [] },
  bm25: { policy: "classic_rag_bm25_no_grep", searches: ["KB_search"] },
  bm25_grep: { policy: "classic_rag_bm25", searches: ["KB_search", "grep"] },
  grep_only: { policy: "grep_only", searches: ["grep"] },
};

const components = ["policy_header", "additional_instructions"];

const searchNames = ["KB_search", "grep"];

/** The domain with one way to the documents. `name`: as the user gave it, with or without the way. */
export function bankingDomain(name: string, retrieval: Retrieval): Domain {
  const { policy, searches } = retrievals[retrieval];
  const empty = defineToolkit("KnowledgeTools", []);
  return {
    name,
    folder: "banking_knowledge",
    agent: { toolkit: empty, database, file: "db.json" },
    user: { toolkit: defineToolkit("KnowledgeUserTools", []), database, file: "db.json" },
    sync: null,
    knowledge: {
      retrieval,
      load: async ({ text, textIfAny }): Promise<LoadedKnowledge> => {
        const documents = readDocuments(await text("documents.jsonl"));
        const docs = readDocs(await textIfAny("discoverable_tools.json"));
        const search = searchTools(documents, searches);
        return {
          ...bankingToolkits(docs, search),
          policy: (assembled) =>
            retrieval === "golden_retrieval"
              ? "(Policy is task-specific - see 'policy' field in each simulation)"
              : withDocuments(assembled, documents),
          policyFor: (assembled, task) =>
            retrieval === "golden_retrieval"
              ? goldenPolicy(assembled, documents, task)
              : withDocuments(assembled, documents),
          hasTool: (tool) => searches.includes(tool) || !searchNames.includes(tool),
        };
      },
    },
    soloRefusal: "banking_knowledge domain does not support solo mode",
    policy: {
      files: [`prompts/${policy}.md`, ...components.map((component) => `prompts/components/${component}.md`)],
      soloFiles: [],
      assemble: ([template = "", ...parts]) =>
        template.replace(/\{\{component:([\p{L}\p{N}_]+)\}\}/gu, (_, component: string) => {
          const part = parts[components.indexOf(component)];
          if (part !== undefined) return part;
          throw new ConfigurationError(
            `Cannot use "prompts/${policy}.md" for tau2-bench: it includes "${component}", which is not known; restore the file as upstream has it.`,
          );
        }),
    },
  };
}

type Docs = { readonly agent: ToolDocs; readonly user: ToolDocs };

/** The toolkits of both sides, given the descriptions of their discoverable tools. */
function bankingToolkits(docs: Docs, search: Toolkit["methods"]): { readonly agent: Toolkit; readonly user: Toolkit } {
  const user: Toolkit = defineToolkit(
    "KnowledgeUserTools",
    userMethods(() => user),
  );
  const agent: Toolkit = defineToolkit("KnowledgeTools", [
    ...search.values(),
    ...customerTools,
    ...discoveryTools({ agent: () => agent, user, docs }),
    ...disputeTools,
    ...creditCardTools,
    ...creditLimitTools,
    ...accountTools,
    ...debitCardTools,
    ...debitCardStateTools,
  ]);
  return { agent, user };
}

function readDocuments(content: string): Document[] {
  const lines = content.split("\n").filter((line) => line.trim() !== "");
  return lines.map((line, at) => {
    const record = parse(`documents.jsonl:${at + 1}`, line);
    const [id, title, text] = ["id", "title", "content"].map((key) => record.get(key));
    if (typeof id === "string" && typeof title === "string" && typeof text === "string") {
      return { id, title, content: text };
    }
    throw broken(`documents.jsonl:${at + 1}`, "it has no id, title and content");
  });
}

function readDocs(content: string | null): Docs {
  const file = "discoverable_tools.json";
  const sides = content === null ? new Map<string, JsonValue>() : parse(file, content);
  const docs = (side: string): ToolDocs => {
    const texts = new Map<string, string>();
    const given = sides.get(side);
    if (content !== null && !(given instanceof Map)) throw broken(file, `it has no tools of the ${side}`);
    for (const [name, text] of given instanceof Map ? given : []) {
      if (typeof text !== "string") throw broken(file, `the description of "${name}" is not a string`);
      texts.set(name, text);
    }
    return new ToolDocs(texts);
  };
  return { agent: docs("agent"), user: docs("user") };
}

function parse(file: string, content: string): JsonObject {
  let value: JsonValue;
  try {
    value = parseJson(content);
  } catch (error) {
    throw broken(file, messageOf(error));
  }
  if (value instanceof Map) return value;
  throw broken(file, "it is not an object");
}

const broken = (file: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot use "banking_knowledge/${file}" for tau2-bench: ${problem.replace(/\.$/, "")}; restore the file as upstream has it.`,
  );
