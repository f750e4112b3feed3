// Prefix cache over the decoder's pages. It is a tree: each node is a page of tokens that follow
// those of its parent, so a path from the root is a sequence whose keys and values are cached.
// Running sequences share the pages of a common prefix, also with sequences that have ended; unused
// pages stay until they are needed, and the least recently used are evicted first.
//
// A page that is not full is only ever copied, never shared, because a sequence that continues from
// it writes to the remaining slots.

import { pageTokens } from "../../learner/model/index.ts";

export type PageNode = {
  readonly parent: PageNode | null;
  readonly page: number;
  /** The tokens of the page; fewer than a full page only at the end of a sequence. */
  readonly tokens: Uint32Array;
  readonly children: Set<PageNode>;
  /**
   * Number of running sequences whose last full page this is. Pages before it are safe because they
   * have children.
   */
  users: number;
  lastUse: number;
};

/** The cached prefix that a prompt can continue from. */
export type CacheMatch = {
  /** The last full page that matches; `null` if none does. */
  readonly node: PageNode | null;
  /** Pages up to that node, in order. */
  readonly pages: readonly number[];
  /**
   * A page whose first `partialTokens` tokens match the tokens that follow; `null` if there is
   * none.
   */
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

  /** Finds the longest cached prefix of the tokens; reserves nothing. */
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

  /** Protects a node and all its ancestors from eviction. */
  hold(node: PageNode | null): void {
    if (node !== null) node.users += 1;
  }

  release(node: PageNode | null): void {
    if (node !== null) node.users -= 1;
  }

  /** Allocates a page for one sequence; `null` if every page is in use. */
  take(): number | null {
    if (this.#free.length === 0) this.#evict();
    return this.#free.pop() ?? null;
  }

  /** Releases a page that is in no node. */
  releasePage(page: number): void {
    this.#free.push(page);
  }

  /**
   * Records the tokens of a page in the tree. If a node with the same tokens already exists, it is
   * returned and the page is released: equal tokens have equal keys and values.
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
      // A shorter page with the same beginning is now redundant.
      if (common === child.tokens.length && child.users === 0) this.#remove(child);
    }
    const node = { parent: above, page, tokens, children: new Set<PageNode>(), users: 0, lastUse: this.#now };
    above.children.add(node);
    return node;
  }

  /** Drops everything that no running sequence holds. */
  clear(): void {
    while (this.#removeUnused(Infinity) > 0);
  }

  /** Frees several pages at once, so that not every allocation walks the tree. */
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
