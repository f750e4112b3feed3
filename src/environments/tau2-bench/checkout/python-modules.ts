// The modules of a checkout that a toolkit is made of, each read once: what a name stands for in one of them is looked up there, or in
// the module it is imported from. Nothing is executed.

import type { SyntaxNode } from "@lezer/common";

import { problemAt, type PythonSource, textOf } from "../../checkout/python-source.ts";
import { type Binding, findBinding, readScope, type Scope } from "../../checkout/read-scope.ts";
import { parseSource } from "./upstream.ts";

export type Module = { readonly source: PythonSource; readonly scope: Scope };

/** What a name stands for: a definition in a module of the checkout, or a name of a package outside of it. */
export type Meaning =
  | { readonly type: "outside"; readonly module: string; readonly name: string }
  | { readonly type: "definition"; readonly module: Module; readonly binding: Exclude<Binding, { type: "import" }> };

/** Imports that are followed from one name; upstream's longest way has two. */
const maxHops = 10;

export class Modules {
  readonly #read: (path: string) => Promise<string>;
  readonly #modules = new Map<string, Promise<Module>>();

  constructor(read: (path: string) => Promise<string>) {
    this.#read = read;
  }

  /** Throws a `ConfigurationError` for a module that is not there, or is no Python. */
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

  /** `null`: nothing of that name is bound, so it is one of Python's own. */
  async meaningOf(module: Module, node: SyntaxNode): Promise<Meaning | null> {
    let [name, at, place] = [textOf(module.source, node), module, node];
    for (let hop = 0; hop < maxHops; hop++) {
      const [binding] = at.scope.bindings.get(name) ?? [];
      if (binding === undefined) {
        if (hop === 0) return null;
        throw problemAt(at.source, 0, `there is no "${name}", which another module imports`);
      }
      // Refuses a second definition, and statements that could change it.
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
