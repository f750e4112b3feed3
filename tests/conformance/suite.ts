// Golden suites: files of recorded inputs and expected outputs, run through our adapters. The same
// code runs in the tests and in `npm run conformance`. Not a test runner: it counts and shows
// differences.

/** Result of one golden file. `passed + failed + unsupported` is the number of its records. */
export type GoldenFileReport = {
  /** Relative to the suite's folder. */
  readonly file: string;
  readonly passed: number;
  readonly failed: number;
  /** Records that need a feature that is not implemented yet. */
  readonly unsupported: number;
  /** At most the first ten failures. */
  readonly failures: readonly { readonly id: string; readonly difference: string }[];
  /** Reason why records are unsupported; `null` if none are. */
  readonly unsupportedReason: string | null;
};

export type GoldenSuiteOptions = {
  /**
   * Folder of the data to which the goldens refer (tables, tokenizers); `null`: searched for beside
   * the goldens, then in `../shared`.
   */
  readonly data: string | null;
};

/** One kind of golden files. Throws a `ConfigurationError` if the folder or the data is missing. */
export interface GoldenSuite {
  readonly name: string;
  run(folder: string, options: GoldenSuiteOptions): AsyncIterable<GoldenFileReport>;
}
