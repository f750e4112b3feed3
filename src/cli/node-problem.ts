// Check of the version of Node. Imports nothing, because an older Node cannot even parse the other
// modules; `scripts/setup.mjs` prints the same message before there is a build, and a test compares
// the two with `engines` of package.json.

const [oldestMajor, oldestMinor] = [20, 19] as const;

/** Reason why this Node cannot run the program; `null` when it can. */
export function nodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return null;
  return (
    `Cannot run with Node ${version}: trainable-agents needs Node >= ${oldestMajor}.${oldestMinor}. ` +
    "Install a newer Node and run the command again."
  );
}
