// The one box of a page, focused by "/": of a run it finds episodes, of the list it filters runs.

import { useEffect, useState } from "preact/hooks";
import { go, linkTo, route } from "./route.ts";

/** The box was requested on a page that has none: it takes the focus once it exists. */
const pending = { focus: false };

export function focusBox(): void {
  const box = document.getElementById("box");
  if (box !== null) return box.focus();
  pending.focus = true;
  go(linkTo([route.value.parts[0] ?? 0]));
}

type BoxProps = {
  readonly initial: string;
  readonly label: string;
  readonly placeholder: string;
  readonly onSubmit: (text: string) => void;
};

export function Box({ initial, label, placeholder, onSubmit }: BoxProps) {
  const [text, setText] = useState(initial);
  useEffect(() => setText(initial), [initial]);
  useEffect(() => {
    if (pending.focus) document.getElementById("box")?.focus();
    pending.focus = false;
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    onSubmit(text);
  };
  return (
    <form class="box" role="search" onSubmit={submit}>
      <input
        id="box"
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        autocomplete="off"
        spellcheck={false}
      />
      <button>find</button>
    </form>
  );
}

/** Reads the content of the box: a number or id, text in quotes, or an expression. */
export function readBox(text: string): {
  readonly type: "episode" | "search" | "where" | "all";
  readonly text: string;
} {
  const trimmed = text.trim();
  if (trimmed === "") return { type: "all", text: "" };
  if (/^#?\d+$/.test(trimmed)) return { type: "episode", text: trimmed.replace("#", "") };
  const quoted = /^["“](.+?)["”]?$/s.exec(trimmed);
  if (quoted !== null) return { type: "search", text: quoted[1]! };
  // An id has no spaces and no comparison.
  if (!/[\s=<>]/.test(trimmed)) return { type: "episode", text: trimmed };
  return { type: "where", text: trimmed };
}

/** The box of a run. */
export function RunBox({ initial, run }: { readonly initial: string; readonly run: string }) {
  const submit = (text: string): void => {
    const read = readBox(text);
    if (read.type === "episode") go(linkTo([run, "episode", read.text]));
    else if (read.type === "search") go(linkTo([run], { text: read.text }));
    else go(linkTo([run], { where: read.text }));
  };
  return (
    <Box
      initial={initial}
      label="Find episodes: a number, an expression, or text in quotes"
      placeholder='36   ·   reward < 1 and turns > 10   ·   "refund"'
      onSubmit={submit}
    />
  );
}
