// States of an awaited answer: loading, loaded, or refused.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export type Loaded<T> =
  | { readonly type: "loading" }
  | { readonly type: "ready"; readonly value: T }
  | { readonly type: "refused"; readonly message: string };

/**
 * Loads again whenever the key changes; the old answer stays until the new one arrives. `everyMs`:
 * also loads again after this time; never if `null`.
 */
export function useLoaded<T>(key: string, load: () => Promise<T>, everyMs: number | null = null): Loaded<T> {
  const [state, setState] = useState<Loaded<T> & { readonly key: string }>({ type: "loading", key });
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      try {
        const value = await load();
        if (isCurrent) setState({ type: "ready", value, key });
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        if (isCurrent) setState({ type: "refused", message, key });
      }
      if (isCurrent && everyMs !== null) timer = setTimeout(() => void run(), everyMs);
    };
    void run();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [key, everyMs]);
  return state;
}

type WaitingProps<T> = {
  readonly state: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
  /** Heading until there is a value, where the children are a whole page. @default they are a part of one */
  readonly page?: string;
};

export function Waiting<T>({ state, children, page }: WaitingProps<T>) {
  if (state.type === "ready") return <>{children(state.value)}</>;
  const said =
    state.type === "loading" ? (
      <p class="quiet">Loading …</p>
    ) : (
      <p class="refused" role="alert">
        {state.message}
      </p>
    );
  if (page === undefined) return said;
  return (
    <main>
      <h1 class="unseen">{page}</h1>
      {said}
    </main>
  );
}
