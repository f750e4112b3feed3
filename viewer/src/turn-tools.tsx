// Under the head of a turn: the request and the reply as recorded, a link to it, and texts to copy.

import { useMemo, useState } from "preact/hooks";
import type { RunFacts, ShownEpisode } from "../../src/viewer/wire/index.ts";
import { callRecord, hideSecrets } from "./call-record.ts";
import { printable } from "./format.tsx";

type TurnToolsProps = { readonly episode: ShownEpisode; readonly turn: number; readonly facts: RunFacts };

/** Made when it is opened: a long prompt takes a while. */
export function TurnTools(props: TurnToolsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="turn-tools" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>request and reply</summary>
      {isOpen && <Recorded {...props} />}
    </details>
  );
}

function Recorded({ episode, turn, facts }: TurnToolsProps) {
  const call = useMemo(() => callRecord(episode, turn, facts), [episode, turn, facts]);
  if (call === null) return <p class="quiet">The record has no such call.</p>;
  const { request, reply, curl, testCase } = call;
  return (
    <>
      <p class="copies">
        <Copy label="copy link" text={location.href.split("#", 1).join("") + turnLink(turn)} />
        {curl === null ? (
          <span class="quiet">no curl: no server's address is recorded</span>
        ) : (
          <Copy label="copy as curl" text={curl} />
        )}
        <Copy label="copy as test case" text={testCase} />
      </p>
      <h4>request</h4>
      <Json value={request} label={`Request of turn ${turn}`} />
      <h4>reply</h4>
      <Json value={reply} label={`Reply of turn ${turn}`} />
    </>
  );
}

/** The address of this episode's turn; a token in the address of the page stays out of what is copied. */
function turnLink(turn: number): string {
  const path = location.hash.split("?", 1).join("");
  return `${path}?turn=${turn}`;
}

export function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  const text = useMemo(() => hideSecrets(JSON.stringify(value, shortArrays, 2)), [value]);
  return (
    <div class="text code json" tabIndex={0} role="region" aria-label={label}>
      {printable(text)}
    </div>
  );
}

/** Lists of numbers in one line, as text. */
function shortArrays(_: string, value: unknown): unknown {
  const isNumbers = Array.isArray(value) && value.length > 4 && value.every((one) => typeof one === "number");
  return isNumbers ? `[${value.join(", ")}]` : value;
}

/** Copies where the browser allows it, and shows the text to copy by hand where it does not. */
export function Copy({ label, text }: { readonly label: string; readonly text: string }) {
  const [state, setState] = useState<"ready" | "copied" | "refused">("ready");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setState("copied");
    } catch {
      setState("refused");
    }
  };
  return (
    <>
      <button onClick={() => void copy()}>{state === "copied" ? `${label}: copied` : label}</button>
      {state === "refused" && (
        <textarea class="by-hand" aria-label={`${label}, by hand`} readOnly value={text} rows={4} />
      )}
    </>
  );
}
