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

export function Waiting<T>({
  state,
  children,
}: {
  readonly state: Loaded<T>;
  readonly children: (value: T) => ComponentChildren;
}) {
  if (state.type === "loading") return <p class="quiet">Loading …</p>;
  if (state.type === "refused")
    return (
      <p class="refused" role="alert">
        {state.message}
      </p>
    );
  return <>{children(state.value)}</>;
}
