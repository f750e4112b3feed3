// Checks that FEATURES.md names every named part of the built package, so that it cannot become
// outdated unnoticed.

/**
 * @param {string} features Text of FEATURES.md.
 * @param {Readonly<Record<string, readonly string[]>>} known Names by kind.
 * @returns {Iterable<string>}
 */
export function* findUnnamed(features, known) {
  for (const [kind, names] of Object.entries(known)) {
    for (const name of names) {
      if (!features.includes(`\`${name}\``)) yield `FEATURES.md does not name the ${kind} \`${name}\`.`;
    }
  }
}

/** @returns {Promise<Readonly<Record<string, readonly string[]>>>} */
export async function knownNames() {
  const [parsers, renderers, users, tauBench] = await Promise.all([
    import("trainable-agents/parsers"),
    import("trainable-agents/renderers"),
    import("trainable-agents/users"),
    import("trainable-agents/environments/tau-bench"),
  ]);
  return {
    "tool-call parser": parsers.toolCallParserNames,
    "reasoning parser": parsers.reasoningParserNames,
    "model family": renderers.rendererFamilyNames,
    user: users.userNames,
    environment: tauBench.tauBenchDomains.map((domain) => `tau-bench/${domain}`),
  };
}
