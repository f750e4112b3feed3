/** An error that Python code would have raised here, by the name of its class. Where behaviour must equal a Python reference, errors are part of it. */
export class PythonError extends Error {
  /** The Python class, e.g. "KeyError". */
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.name = "PythonError";
    this.type = type;
  }
}
