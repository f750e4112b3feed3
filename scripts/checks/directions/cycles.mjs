// Cycles in a directed graph, for files and for modules.

/**
 * One cycle for each group of nodes that reach each other, each as a path whose last node equals
 * its first.
 *
 * @param {ReadonlyMap<string, readonly string[]>} edges
 * @returns {string[][]}
 */
export function findCycles(edges) {
  /** @type {string[][]} */
  const cycles = [];
  /** @type {Set<string>} */
  const finished = new Set();
  /** @type {string[]} */
  const path = [];

  /** @param {string} node */
  const visit = (node) => {
    if (finished.has(node)) return;
    const start = path.indexOf(node);
    if (start >= 0) {
      cycles.push([...path.slice(start), node]);
      return;
    }
    path.push(node);
    for (const next of edges.get(node) ?? []) visit(next);
    path.pop();
    finished.add(node);
  };

  for (const node of edges.keys()) visit(node);
  return cycles;
}
