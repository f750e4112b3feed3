// The mark of a person on an episode: right, or wrong and whose fault, with the reason. Every change
// is kept at once.

import { useRef, useState } from "preact/hooks";
import { type Mark, markFaults, type Row, type RunFacts } from "../../src/viewer/wire/index.ts";
import { keepMark, readOnlyReason } from "./api.ts";
import { printable } from "./format.tsx";
import { useKeys } from "./keys.ts";

type MarkBoxProps = { readonly facts: RunFacts; readonly row: Row; readonly initial: Mark | null };
type Draft = Omit<Mark, "at"> | null;

const signs = { right: "✓", wrong: "✗" } as const;

export function MarkBox({ facts, row, initial }: MarkBoxProps) {
  const reason = readOnlyReason(facts);
  if (reason === null) return <Editor facts={facts} row={row} initial={initial} />;
  return (
    <section class="mark" aria-label="Mark">
      {initial !== null && <Said mark={initial} />}
      <span class="quiet">{printable(reason)}</span>
    </section>
  );
}

function Said({ mark: { verdict, fault, why } }: { readonly mark: Mark }) {
  return (
    <span>
      <span class={`mark-sign ${verdict}`}>
        <span aria-hidden="true">{signs[verdict]}</span> marked {verdict}
      </span>
      {fault !== null && ` by the fault of the ${fault}`}
      {why !== "" && `: ${printable(why)}`}{" "}
    </span>
  );
}

function Editor({ facts, row, initial }: MarkBoxProps) {
  const [mark, setMark] = useState<Draft>(initial);
  const [said, setSaid] = useState("");
  const why = useRef<HTMLInputElement>(null);
  /** Changes are sent one after the other, so that the last one counts. */
  const sending = useRef(Promise.resolve());
  const keep = (draft: Draft): void => {
    setMark(draft);
    setSaid("");
    const send = async (before: Promise<void>): Promise<void> => {
      await before;
      try {
        await keepMark(facts.key, row.number, draft);
        setSaid(draft === null ? "taken back" : "kept");
      } catch (error) {
        setSaid(error instanceof Error ? error.message : String(error));
      }
    };
    sending.current = send(sending.current);
  };
  const reason = (): string => why.current?.value ?? mark?.why ?? "";
  const choose = (verdict: Mark["verdict"]): void =>
    keep(mark?.verdict === verdict ? null : { verdict, fault: null, why: reason() });
  const blame = (fault: Mark["fault"]): void => keep({ verdict: "wrong", fault, why: reason() });
  useKeys({
    y: () => choose("right"),
    n: () => choose("wrong"),
    w: () => why.current?.focus(),
    ...Object.fromEntries(markFaults.map((fault, at) => [String(at + 1), () => blame(fault)])),
  });
  const button = (verdict: Mark["verdict"], key: string) => (
    <button
      class={`choice ${verdict}`}
      aria-pressed={mark?.verdict === verdict}
      title={`${verdict} (${key})`}
      onClick={() => choose(verdict)}
    >
      <span aria-hidden="true">{signs[verdict]}</span> {verdict}
    </button>
  );
  return (
    <section class="mark" aria-label="Mark">
      <span class="label">mark</span> {button("right", "y")} {button("wrong", "n")}{" "}
      {mark?.verdict === "wrong" && (
        <select
          aria-label="Whose fault it is"
          title="1 to 4"
          value={mark.fault ?? ""}
          onChange={({ currentTarget: { value } }) => blame(markFaults.find((one) => one === value) ?? null)}
        >
          <option value="">whose fault?</option>
          {markFaults.map((fault) => (
            <option key={fault} value={fault}>
              {fault}
            </option>
          ))}
        </select>
      )}{" "}
      <input
        ref={why}
        type="text"
        aria-label="Why"
        placeholder="why (w)"
        maxLength={2000}
        defaultValue={initial?.why ?? ""}
        autocomplete="off"
        onChange={() => mark !== null && keep({ ...mark, why: reason() })}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />{" "}
      <span class="quiet" role="status">
        {printable(said)}
      </span>
    </section>
  );
}
