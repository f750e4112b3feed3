// Find in an episode: every occurrence is marked and counted, also in folded texts, which open when
// one of theirs is shown.

import { useEffect, useRef, useState } from "preact/hooks";

const mostHits = 5000;

/** Focuses the box; does nothing on a page without one. */
export function focusFind(): void {
  document.getElementById("find")?.focus();
}

/** `version` changes with the content of the page. */
export function Find({ initial, version }: { readonly initial: string; readonly version: string }) {
  const [text, setText] = useState(initial);
  const [at, setAt] = useState(0);
  const [hits, setHits] = useState<readonly Range[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(initial), [initial]);
  const search = (): readonly Range[] => {
    clearTimeout(timer.current);
    timer.current = undefined;
    const found = rangesOf(document.querySelector(".episode main"), text);
    CSS.highlights?.set("found", new Highlight(...found));
    setHits(found);
    setAt(0);
    return found;
  };
  useEffect(() => {
    // Content may still be laid out, and typing goes on.
    const later = (): void => {
      const found = search();
      if (initial !== "" && text === initial) show(found[0]);
    };
    timer.current = setTimeout(later, text === initial ? 0 : 150);
    return () => clearTimeout(timer.current);
  }, [text, version, initial]);
  useEffect(() => () => void CSS.highlights?.delete("found"), []);
  const step = (by: number): void => {
    // Typed a moment ago: the first occurrence is shown.
    if (timer.current !== undefined) return show(search()[0]);
    if (hits.length === 0) return;
    const next = (at + by + hits.length) % hits.length;
    setAt(next);
    show(hits[next]);
  };
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        step(1);
      }}
    >
      <input
        id="find"
        type="search"
        aria-label="Find in this episode"
        placeholder="find"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !event.shiftKey) return;
          event.preventDefault();
          step(-1);
        }}
        autocomplete="off"
        spellcheck={false}
      />
      {text !== "" && (
        <>
          <span class="quiet" role="status">
            {hits.length === 0
              ? "none"
              : `${at + 1} of ${hits.length === mostHits ? `${mostHits} or more` : hits.length}`}
          </span>
          <button type="button" class="quiet" onClick={() => step(-1)} aria-label="previous occurrence">
            ‹
          </button>
          <button class="quiet" aria-label="next occurrence">
            ›
          </button>
        </>
      )}
    </form>
  );
}

function show(range: Range | undefined): void {
  const element = range?.startContainer.parentElement;
  for (let above = element ?? null; above !== null; above = above.parentElement) {
    if (above instanceof HTMLDetailsElement) above.open = true;
  }
  element?.scrollIntoView({ block: "center" });
}

/** Occurrences in any case. Tokens are in several text nodes; other texts end with their element. */
function rangesOf(element: Element | null, text: string): readonly Range[] {
  const wanted = text.toLowerCase();
  if (element === null || wanted === "") return [];
  const nodes: { readonly node: Node; readonly start: number }[] = [];
  const parts: string[] = [];
  let length = 0;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const content = lowered(node.nodeValue ?? "");
    nodes.push({ node, start: length });
    const end = node.parentElement?.closest(".piece-text") === null ? "\u0000" : "";
    parts.push(content, end);
    length += content.length + end.length;
  }
  const whole = parts.join("");
  const ranges: Range[] = [];
  let place = 0;
  for (
    let at = whole.indexOf(wanted);
    at !== -1 && ranges.length < mostHits;
    at = whole.indexOf(wanted, at + wanted.length)
  ) {
    while ((nodes[place + 1]?.start ?? Infinity) <= at) place++;
    let last = place;
    const end = at + wanted.length;
    while ((nodes[last + 1]?.start ?? Infinity) < end) last++;
    const range = new Range();
    range.setStart(nodes[place]!.node, at - nodes[place]!.start);
    range.setEnd(nodes[last]!.node, end - nodes[last]!.start);
    ranges.push(range);
  }
  return ranges;
}

/** A few characters have lower-case forms of another length, which would shift everything after them. */
function lowered(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text;
}
