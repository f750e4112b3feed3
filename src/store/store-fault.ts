import { attribute, AttributedError } from "../core/index.ts";

/** What escaped while a run was kept, attributed; a full disk reads like one. */
export function storeFault(task: string, location: string, error: unknown): AttributedError {
  const { failure } = attribute(error, "store", systemCode(error) ?? "unexpected");
  const remedy = failure.code === "ENOSPC" ? "; make room on the disk" : "";
  const message = `Cannot ${task} in "${location}": ${failure.message}${remedy}.`;
  return new AttributedError({ ...failure, message }, { cause: error });
}

export function unbegunStore(location: string): Error {
  return new Error(`Cannot use the run store at "${location}": it has not begun; call begin first.`);
}

export function closedStore(location: string): Error {
  return new Error(`Cannot append to the run store at "${location}": it is closed.`);
}

function systemCode(error: unknown): string | null {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;
}
