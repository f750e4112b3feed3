// Output of a verification: a line for each check as it ends, with its figure, and the overall
// verdict.

/**
 * @param {string} subject
 */
export function createReport(subject) {
  const started = performance.now();
  /** @type {string[]} */
  const failed = [];
  let passed = 0;
  const write = (/** @type {string} */ text) => void process.stdout.write(`${text}\n`);
  write(subject);
  return {
    /**
     * Runs a check, which resolves with its figure. A rejection fails it, and the other checks
     * continue.
     *
     * @param {string} name
     * @param {() => Promise<string>} body
     */
    async check(name, body) {
      const began = performance.now();
      /** @type {string} */
      let line;
      try {
        line = `ok      ${name}: ${await body()}`;
        passed++;
      } catch (error) {
        line = `FAILED  ${name}: ${error instanceof Error ? error.message : String(error)}`;
        failed.push(name);
      }
      write(`  ${line} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    },
    /** Writes the count, and returns the exit code. */
    finish() {
      const seconds = ((performance.now() - started) / 1000).toFixed(0);
      write(
        `${passed} ok, ${failed.length} failed in ${seconds} s${failed.length > 0 ? `: ${failed.join("; ")}` : ""}`,
      );
      return failed.length === 0 ? 0 : 1;
    },
  };
}
