// A table of upstream's files that we read from τ²-bench, and its modules, opened by name. Paths
// are those of the pinned commit; a checkout of another commit is accepted as long as its files
// still have the same structure.

import type { SyntaxNode } from "@lezer/common";
import { pinUpstream } from "../../checkout/prepare-folder.ts";
import {
  type Binding,
  findBinding,
  problemAt,
  type PythonSource,
  readScope,
  type Scope,
  textOf,
} from "../../checkout/python-source.ts";

export const { upstream, checkoutRemedy, parseSource } = pinUpstream({
  title: "τ²-bench",
  url: "https://github.com/sierra-research/tau2-bench.git",
  commit: "a2c024725189473d2d7cea3a5cfdbcc67478e41f",
});

type Toolkit = { readonly module: string; readonly className: string };

export type UpstreamDomain = {
  readonly name: string;
  /** Files that are copied byte for byte. */
  readonly files: readonly string[];
  /** Files that are copied if they exist. */
  readonly optionalFiles: readonly string[];
  readonly agent: Toolkit;
  readonly user: Toolkit | null;
};

const toolkit = (module: string, className: string): Toolkit => ({ module, className });

export const upstreamDomains: readonly UpstreamDomain[] = [
  {
    name: "mock",
    files: ["db.json", "user_db.json", "policy.md", "policy_solo.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "MockTools"),
    user: toolkit("user_tools", "MockUserTools"),
  },
  {
    name: "retail",
    files: ["db.json", "policy.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "RetailTools"),
    user: null,
  },
  {
    name: "airline",
    files: ["db.json", "policy.md", "tasks.json", "split_tasks.json"],
    optionalFiles: [],
    agent: toolkit("tools", "AirlineTools"),
    user: null,
  },
  {
    name: "telecom",
    files: [
      ...["db.toml", "user_db.toml", "main_policy.md", "main_policy_solo.md", "tech_support_manual.md"],
      ...["tech_support_workflow.md", "tech_support_workflow_solo.md", "tasks.json", "split_tasks.json"],
    ],
    optionalFiles: ["tasks_small.json"],
    agent: toolkit("tools", "TelecomTools"),
    user: toolkit("user_tools", "TelecomUserTools"),
  },
];

/** Source of the texts for upstream's agents. A folder with this file counts as a checkout. */
export const agentSource = "src/tau2/agent/llm_agent.py";

export const judgeSource = "src/tau2/evaluator/evaluator_nl_assertions.py";

/** Guidelines for a user simulated by a model; copied byte for byte. */
export const guidelineFiles: readonly string[] = ["simulation_guidelines.md", "simulation_guidelines_tools.md"];

// The modules of a checkout that define a toolkit, each read once: a name in one of them is
// resolved there, or in the module it is imported from. None of the code is executed.

export type Module = { readonly source: PythonSource; readonly scope: Scope };

/**
 * The meaning of a name: a definition in a module of the checkout, or a name of a package outside
 * of it.
 */
export type Meaning =
  | { readonly type: "outside"; readonly module: string; readonly name: string }
  | { readonly type: "definition"; readonly module: Module; readonly binding: Exclude<Binding, { type: "import" }> };

/** Maximum number of imports followed for one name; upstream's longest chain has two. */
const maxHops = 10;

export class Modules {
  readonly #read: (path: string) => Promise<string>;
  readonly #modules = new Map<string, Promise<Module>>();

  constructor(read: (path: string) => Promise<string>) {
    this.#read = read;
  }

  /** Throws a `ConfigurationError` for a module that does not exist, or is not Python. */
  async open(path: string): Promise<Module> {
    let module = this.#modules.get(path);
    if (module === undefined) {
      module = this.#read(path).then((content) => {
        const source = parseSource(path, content);
        return { source, scope: readScope(source, source.top) };
      });
      this.#modules.set(path, module);
    }
    return module;
  }

  /** Resolves a name; `null` if it is not bound, so it is one of Python's builtins. */
  async meaningOf(module: Module, node: SyntaxNode): Promise<Meaning | null> {
    let [name, at, place] = [textOf(module.source, node), module, node];
    for (let hop = 0; hop < maxHops; hop++) {
      const [binding] = at.scope.bindings.get(name) ?? [];
      if (binding === undefined) {
        if (hop === 0) return null;
        throw problemAt(at.source, 0, `there is no "${name}", which another module imports`);
      }
      // This refuses a second definition, and statements that could change it.
      const found = findBinding(at.source, at.scope, name, binding.type);
      if (found.type !== "import") return { type: "definition", module: at, binding: found };
      if (found.name === null) throw problemAt(at.source, found.node, `"${name}" is a module`);
      if (!found.module.startsWith("tau2.")) return { type: "outside", module: found.module, name: found.name };
      place = found.node;
      [name, at] = [found.name, await this.open(`src/${found.module.replaceAll(".", "/")}.py`)];
    }
    throw problemAt(at.source, place, `"${name}" is imported in a circle`);
  }
}
