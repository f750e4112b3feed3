/**
 * An exception that Python code would have raised here, as a value that tools and readers catch; `message` is its `str()`.
 * Where behaviour must equal a Python reference, errors are part of it.
 */
export class PythonError extends Error {
  /** Name of the Python class, e.g. `KeyError`. */
  readonly pythonType: string;

  constructor(pythonType: string, message: string) {
    super(message);
    this.name = "PythonError";
    this.pythonType = pythonType;
  }
}
