// Which page of the decoder's cache holds what. A tree: each node is a page of tokens that follows its parent's, so a path
// from the root is a sequence whose keys and values are known. Running sequences share the pages of a common beginning,
// also with those that ended; unused pages stay until they are needed, the longest unused first.
//
// A page that is not full is only ever copied, never shared: a sequence that continues from it writes to its rest.

import { pageTokens } from "../../learner/model/index.ts";

export type PageNode = {
  readonly parent: PageNode | null;
  readonly page: number;
  /** What the page holds; fewer than a page only at the end of a sequence. */
  readonly tokens: Uint32Array;
  readonly children: Set<PageNode>;
  /** Running sequences whose last full page this is. Pages before it are safe because they have children. */
  users: number;
  lastUse: number;
};

/** What a prompt can continue from. */
export type CacheMatch = {
  /** The last full page that matches; `null`: none does. */
  readonly node: PageNode | null;
  /** Pages up to that node, in order. */
  readonly pages: readonly number[];
  /** A page whose first `partialTokens` tokens match what follows; `null`: none. */
  readonly partial: PageNode | null;
  readonly partialTokens: number;
};

export class PageCache {
  readonly #free: number[];
  readonly #root: PageNode = {
    parent: null,
    page: -1,
    tokens: new Uint32Array(0),
    children: new Set(),
    users: 1,
    lastUse: 0,
  };
  #now = 0;

  constructor(pages: number) {
    this.#free = Array.from({ length: pages }, (_, index) => pages - 1 - index);
  }

  /** The longest known beginning of the tokens; takes nothing. */
  match(tokens: Uint32Array): CacheMatch {
    this.#now += 1;
    const pages: number[] = [];
    let node = this.#root;
    for (;;) {
      const rest = tokens.subarray(pages.length * pageTokens);
      let best: PageNode | null = null;
      let bestTokens = 0;
      for (const child of node.children) {
        const common = commonLength(child.tokens, rest);
        if (common > bestTokens) [best, bestTokens] = [child, common];
        if (common === pageTokens) break;
      }
      if (best !== null) best.lastUse = this.#now;
      if (best === null || bestTokens < pageTokens) {
        return { node: node === this.#root ? null : node, pages, partial: best, partialTokens: bestTokens };
      }
      node = best;
      pages.push(node.page);
    }
  }

  /** Keeps a node, and all before it, from eviction. */
  hold(node: PageNode | null): void {
    if (node !== null) node.users += 1;
  }

  release(node: PageNode | null): void {
    if (node !== null) node.users -= 1;
  }

  /** A page for a sequence of its own; `null` when every page is in use. */
  take(): number | null {
    if (this.#free.length === 0) this.#evict();
    return this.#free.pop() ?? null;
  }

  /** Releases a page that is in no node. */
  releasePage(page: number): void {
    this.#free.push(page);
  }

  /**
   * Makes known what a page holds. When a node with the same tokens exists already, it is returned and the page is
   * released: equal tokens have equal keys and values.
   */
  add(parent: PageNode | null, page: number, tokens: Uint32Array): PageNode {
    const above = parent ?? this.#root;
    for (const child of above.children) {
      const common = commonLength(child.tokens, tokens);
      if (common === tokens.length) {
        child.lastUse = this.#now;
        this.releasePage(page);
        return child;
      }
      // A shorter page that says the same is of no use any more.
      if (common === child.tokens.length && child.users === 0) this.#remove(child);
    }
    const node = { parent: above, page, tokens, children: new Set<PageNode>(), users: 0, lastUse: this.#now };
    above.children.add(node);
    return node;
  }

  /** Forgets everything that no running sequence holds. */
  clear(): void {
    while (this.#removeUnused(Infinity) > 0);
  }

  /** Frees some pages at a time, so that not every page costs a walk through the tree. */
  #evict(): void {
    this.#removeUnused(32);
  }

  #removeUnused(most: number): number {
    const unused: PageNode[] = [];
    const visit = (node: PageNode): void => {
      if (node.children.size === 0 && node.users === 0) unused.push(node);
      for (const child of node.children) visit(child);
    };
    visit(this.#root);
    unused.sort((a, b) => a.lastUse - b.lastUse);
    const removed = unused.slice(0, most);
    for (const node of removed) this.#remove(node);
    return removed.length;
  }

  #remove(node: PageNode): void {
    node.parent?.children.delete(node);
    this.#free.push(node.page);
  }
}

function commonLength(a: Uint32Array, b: Uint32Array): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length += 1;
  return length;
}
