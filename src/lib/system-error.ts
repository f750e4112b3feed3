// Errors of the operating system, by code, and advice for each. It does not parse messages, because
// Node provides the code.

/** Errors after which nothing can be written until someone frees space or raises a limit. */
const spaceRemedies: Readonly<Record<string, string>> = {
  ENOSPC: "make room on the disk",
  EDQUOT: "make room: the quota of the disk is used up",
  EFBIG: "raise the limit on the size of files (ulimit -f)",
};

const otherRemedies: Readonly<Record<string, string>> = {
  EROFS: "the file system is read-only: mount it writable, or name a folder on another one",
  EACCES: "give this user the permission, or name another folder",
  EPERM: "give this user the permission, or name another folder",
  ENOENT: "the folder was moved or removed, or its path is wrong: put it back, or correct the path",
  ENOTDIR: "a part of the path is a file: correct the path",
  EISDIR: "it is a folder: name a file",
  EEXIST: "it exists: name another, or remove it",
  ENAMETOOLONG: "the path is too long: name a shorter one",
  ELOOP: "its links lead in a circle: correct the path",
  EIO: "the disk reports an error: check it",
  ESTALE: "the network file system has lost the file: mount it again",
  EMFILE: "raise the limit on open files (ulimit -n)",
  ENFILE: "the system has too many open files: close some",
  ETXTBSY: "the file is being executed: name another",
  EBUSY: "another program uses it: stop that program, or name another",
};

/** The code of a system error, such as "ENOSPC"; `null` for any other value. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;
}

/** True if a write failed for lack of space, which may change at any time. */
export function isOutOfSpace(error: unknown): boolean {
  return Object.hasOwn(spaceRemedies, systemCode(error) ?? "");
}

/** Advice for a file system error; `null` if there is none. */
export function remedyOf(error: unknown): string | null {
  const code = systemCode(error) ?? "";
  const known = Object.hasOwn(spaceRemedies, code) ? spaceRemedies : otherRemedies;
  return Object.hasOwn(known, code) ? known[code]! : null;
}
