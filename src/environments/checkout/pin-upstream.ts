// What a pinned commit of an upstream repository is to its readers: where it is cloned from, and what to do about a source that
// cannot be read. A checkout of another commit is read as long as its files still say the same kind of thing.

import type { Upstream } from "./clone-upstream.ts";
import { parsePython, type PythonSource } from "./python-source.ts";

export type PinnedUpstream = {
  readonly upstream: Upstream;
  /** What to do about a source that cannot be read, as the end of a sentence. */
  readonly checkoutRemedy: string;
  /** A source of upstream, by its path within the checkout. */
  readonly parseSource: (file: string, content: string) => PythonSource;
};

/** `commit`: the one whose sources the readers are known to understand, and the one that is cloned. */
export function pinUpstream(pinned: Pick<Upstream, "title" | "url" | "commit">): PinnedUpstream {
  const checkoutRemedy = `take the sources of commit ${pinned.commit.slice(0, 12)}`;
  return {
    upstream: { ...pinned, git: "git" },
    checkoutRemedy,
    parseSource: (file, content) => parsePython(file, content, checkoutRemedy),
  };
}
