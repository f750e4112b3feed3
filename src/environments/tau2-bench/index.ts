// Public entry of τ²-bench: worlds of both sides, and the tasks that begin in them. The behaviour
// is code in this folder; policies, databases, tasks and tool descriptions are read at run time
// from a folder that the user names.

import { ConfigurationError } from "../../core/failure.ts";
import type { Domain, Toolkit } from "./toolkit.ts";
import { defaultRetrieval, type Tau2Domain, tau2Domains } from "./options.ts";
import { type DomainData, loadDomainData } from "./domain-data.ts";
import { airlineDatabase, airlineToolkit } from "./airline.ts";
import type { DatabaseSpec } from "./database.ts";
import { mockDomain } from "./mock/mock-domain.ts";
import { retailDatabase, retailToolkit } from "./retail.ts";
import { telecomDomain, telecomWorkflowDomain } from "./telecom/telecom-domain.ts";

export { tau2Domains } from "./options.ts";
export { isTau2Checkout, prepareTau2Bench, readTau2Checkout } from "./checkout/read-checkout.ts";
export { callText, looksLikeCall, parseActionText } from "./action-text.ts";
export {
  Conversation,
  type ConversationOptions,
  type ConversationState,
  type Handed,
  isUserStop,
  stopToken,
} from "./conversation.ts";
export {
  type ActionCheck,
  evaluate,
  type EvaluationOptions,
  type EvaluationType,
  evaluationTypes,
  type Judge,
  judgedAssertions,
  readVerdicts,
  type RewardInfo,
  type TerminationReason,
  terminationReasons,
  type Verdict,
} from "./evaluate.ts";
export type { DomainData } from "./domain-data.ts";
export { playableTasks, type Tau2Options, tau2Source } from "./tau2-environment.ts";
export { type GymOptions, type GymStep, Tau2Gym } from "./gym.ts";
export type { SpokenMessage, Tau2Message, ToolCall, ToolMessage } from "./messages.ts";
export {
  agentPrompt,
  goldAgentPrompt,
  isSoloTask,
  judgeRequest,
  scenarioText,
  soloAgentPrompt,
  type Tau2Prompts,
  soloStopTool,
  userPrompt,
  visibleTo,
} from "./prompts.ts";
export { type ReplayedEpisode, replayTau2Episode } from "./replay-episode.ts";
export { telecomRuleUser } from "./rule-user.ts";
export { telecomExpertAction } from "./telecom-expert.ts";
export {
  readTau2Results,
  type ReadSimulation,
  type Tau2ResultFile,
  type MessageCost,
  tau2ResultsBegin,
  tau2ResultsEnd,
  tau2ResultsText,
  tau2SimulationText,
  type Tau2RunFacts,
  type Tau2Simulation,
} from "./results-file.ts";
export { loggedReadsOf, readMessages, type Tau2Task } from "./tasks.ts";
export { resultText } from "./toolkit.ts";
export { trialSeeds } from "./trial-seeds.ts";
export { type Assertion, countedIds, type FunctionCall, Tau2World } from "./world.ts";

const domains: Readonly<Record<Exclude<Tau2Domain, "banking_knowledge">, Domain>> = {
  mock: mockDomain,
  retail: agentOnly({ name: "retail", title: "Retail", toolkit: retailToolkit, database: retailDatabase }),
  airline: agentOnly({ name: "airline", title: "Airline", toolkit: airlineToolkit, database: airlineDatabase }),
  telecom: telecomDomain,
  "telecom-workflow": telecomWorkflowDomain,
};

/** A domain in which only the agent has tools, and which needs a user. */
function agentOnly(side: {
  readonly name: string;
  /** Title of the domain in upstream's refusal. */
  readonly title: string;
  readonly toolkit: Toolkit;
  readonly database: DatabaseSpec;
}): Domain {
  const { name, title, toolkit, database } = side;
  return {
    name,
    folder: name,
    agent: { toolkit, database, file: "db.json" },
    user: null,
    sync: null,
    knowledge: null,
    soloRefusal: `${title} domain does not support solo mode`,
    policy: { files: ["policy.md"], soloFiles: [], assemble: ([policy]) => policy! },
  };
}

/**
 * Loads the data of a domain, once per process. Rejects with a `ConfigurationError` for an unknown
 * domain, and for files that are missing or differ in structure from upstream's.
 */
export async function loadTau2Data(options: {
  readonly domain: string;
  readonly folder: string;
  /** Texts of files that the folder lacks, by path within it. @default none */
  readonly added?: ReadonlyMap<string, string>;
}): Promise<DomainData> {
  const domain = Object.values(domains).find(({ name }) => name === options.domain) ?? (await bankOf(options.domain));
  if (domain !== null) return loadDomainData(domain, options.folder, options.added);
  throw new ConfigurationError(
    `Cannot load tau2-bench/${options.domain}: there is none; use one of ${tau2Domains.join(", ")}.`,
  );
}

/** The bank with a way to its documents, as in `banking_knowledge-bm25`; `null` for another domain. */
async function bankOf(domain: string): Promise<Domain | null> {
  const [name, retrieval = defaultRetrieval] = domain.split(/-(.*)/s);
  if (name !== ("banking_knowledge" satisfies Tau2Domain)) return null;
  const [{ bankingDomain }, { readRetrieval }] = await Promise.all([
    import("./banking/banking-domain.ts"),
    import("./banking/read-retrieval.ts"),
  ]);
  return bankingDomain(domain, readRetrieval(retrieval));
}
