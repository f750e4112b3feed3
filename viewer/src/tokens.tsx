// An episode as its policy saw it: every token with its mask, logprob and weights. All text is in
// the page, a text node for about 500 tokens, so that the browser's search, copying and screen
// readers have it whole; colours of logprobs are ranges over it, made only near the view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Turn } from "../../src/core/index.ts";
import {
  type PackedText,
  decodeText,
  differenceText,
  type EpisodeOverlay,
  overlayOf,
  samplesOf,
  type ShownEpisode,
  type TrainerLines,
  wellFormed,
} from "../../src/viewer/wire/index.ts";
import { ask } from "./api.ts";
import { controlsShown, count, plural, printable } from "./format.tsx";
import { useLoaded } from "./load.tsx";
import { amend, linkTo, route } from "./route.ts";
import {
  branchPaths,
  branchSentence,
  type BranchLayout,
  type Chunk,
  chunksOf,
  colourBounds,
  colourClass,
  type Colouring,
  layoutOf,
  type Piece,
  versionSpread,
  weightsText,
} from "./token-layout.ts";
import { inRuns, linesOf, type Part, sized } from "./token-runs.ts";

type TokensProps = {
  readonly episode: ShownEpisode;
  readonly run: string;
  readonly number: number;
  readonly branch: number | null;
  readonly turn: number | null;
  /** Facts that another tool's file does not record; `null` for a record of ours. */
  readonly missing: readonly string[] | null;
  /** A trainer's logprobs, laid over the tokens; `null` for none. */
  readonly trainer: TrainerLines | null;
};

/**
 * Kept for the episode that was read last, because readers switch between conversation and tokens.
 */
const textCache = new Map<string, Promise<ReturnType<typeof decodeText> | null>>();

export function loadText(run: string, number: number): Promise<ReturnType<typeof decodeText> | null> {
  const key = `${run} ${number}`;
  const known = textCache.get(key);
  if (known !== undefined) return known;
  const loading = ask<{ observation: PackedText; action: PackedText }[] | null>("text", { run, id: number }).then(
    (turns) => (turns === null ? null : decodeText(turns)),
  );
  textCache.clear();
  textCache.set(key, loading);
  loading.catch(() => textCache.delete(key));
  return loading;
}

export function Tokens({ episode, run, number, branch, turn, missing, trainer }: TokensProps) {
  const masks = missing === null ? "ours" : missing.includes("loss mask") ? "not recorded" : "of the file";
  const samples = useMemo(() => samplesOf(episode), [episode]);
  const overlay = useMemo(() => (trainer === null ? null : overlayOf(samples, trainer)), [samples, trainer]);
  const [colouring, setColouring] = useState<Colouring>(overlay === null ? "logprob" : "difference");
  const paths = useMemo(() => branchPaths(episode), [episode]);
  const texts = useLoaded(`texts ${run} ${number}`, () => loadText(run, number));
  const withTurn = turn === null ? -1 : paths.findIndex((path) => path.some(({ index }) => index === turn));
  const shown = branch ?? (withTurn === -1 ? 0 : withTurn);
  const layout = useMemo(
    () =>
      texts.type === "loading"
        ? null
        : layoutOf(episode, {
            samples,
            masks,
            branch: shown,
            texts: texts.type === "ready" ? texts.value : null,
            overlay: overlay?.branches.get(shown) ?? null,
          }),
    [episode, samples, masks, shown, texts, overlay],
  );
  if (episode.trajectory.turns.length === 0) {
    return (
      <main class="tokens">
        <p>
          {episode.historyPolicy === "no-tokens"
            ? "No tokens are recorded: the agent was a model behind an API, or the file is of a program that records none. Nothing of it can be trained."
            : "The policy made no turn."}
        </p>
      </main>
    );
  }
  return (
    <main class="tokens">
      <section class="mask-facts" aria-label="The mask">
        <p>
          {masks === "not recorded" ? (
            <strong>The loss mask is not recorded: nothing says which tokens were sampled.</strong>
          ) : masks === "of the file" ? (
            "The mask is shown as the file has it; why a token is not trained is not recorded."
          ) : samples.violation === null ? (
            <>
              <strong class="good">Mask in order:</strong> every sampled token is trained exactly once, or dropped for a
              reason stated below.
            </>
          ) : (
            <strong class="bad">Mask not in order: {printable(samples.violation)}</strong>
          )}{" "}
          {masks !== "not recorded" && layout !== null && `${branchSentence(layout)}.`}
        </p>
        {samples.dropped.length > 0 && (
          <ul class="dropped">
            {samples.dropped.map(({ turn: at, count: tokens, reason }) => (
              <li key={at}>
                turn {at}: {plural(tokens, "sampled token")} in no row ({reason})
              </li>
            ))}
          </ul>
        )}
        <Spread turns={layout?.turns ?? []} />
        {paths.length > 1 && <Branches paths={paths} shown={shown} />}
        {trainer !== null && overlay !== null && layout !== null && (
          <Trainer file={trainer.file} overlay={overlay} layout={layout} />
        )}
        <Legend colouring={colouring} choose={overlay === null ? null : setColouring} />
        {texts.type === "ready" && texts.value === null && (
          <p class="quiet">
            {missing === null ? "The tokenizer of this run no longer exists" : "The file names no tokenizer"}: tokens
            are shown by their ids.
          </p>
        )}
        {texts.type === "refused" && <p class="refused">{texts.message}</p>}
      </section>
      {layout === null ? (
        <p class="quiet">Loading the text of the tokens …</p>
      ) : (
        <Pane layout={layout} turn={turn} colouring={colouring} />
      )}
    </main>
  );
}

function Spread({ turns }: { readonly turns: readonly Turn[] }) {
  const spread = versionSpread(turns);
  if (spread === null) return null;
  const { oldest, newest } = spread;
  return (
    <p class="quiet">
      Weights{" "}
      {oldest === newest ? oldest : `${oldest} to ${newest}: the oldest is ${newest - oldest} behind the newest`}; a
      trainer at version n is n − {oldest} steps ahead (staleness).
    </p>
  );
}

/** The tree: a line for each turn that begins a branch, indented below the turn that it continues. */
function Branches({ paths, shown }: { readonly paths: readonly (readonly Turn[])[]; readonly shown: number }) {
  return (
    <nav class="branches" aria-label="Branches">
      <ol>
        {paths.map((path, branch) => {
          const shared = Math.max(0, ...paths.slice(0, branch).map((other) => sharedTurns(other, path)));
          const own = path.slice(shared);
          const reason = own[0]?.rewriteReason ?? null;
          return (
            <li key={branch} style={{ marginInlineStart: `${Math.min(shared, 12)}rem` }}>
              <button aria-pressed={branch === shown} onClick={() => amend({ b: branch, turn: null })}>
                branch {branch}
              </button>{" "}
              {shared > 0 && <span class="quiet">from turn {path[shared - 1]!.index}: </span>}
              turns {own.map(({ index }) => index).join(" → ")}{" "}
              {reason !== null && <span class="quiet">({printable(reason)})</span>}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}

function sharedTurns(a: readonly Turn[], b: readonly Turn[]): number {
  let shared = 0;
  while (shared < a.length && a[shared] === b[shared]) shared++;
  return shared;
}

/**
 * Distance of the trainer from the sampler on this branch, and the lines of its file that cannot be
 * shown.
 */
function Trainer({
  file,
  overlay: { branches, problems },
  layout: { branch, trained, pieces },
}: {
  readonly file: string;
  readonly overlay: EpisodeOverlay;
  readonly layout: BranchLayout;
}) {
  const found = branches.get(branch) ?? null;
  const text = found === null ? null : differenceText(found.difference);
  const turn = pieces.findLast(({ start }) => start <= (found?.largestAt ?? -1))?.turn.index;
  return (
    <>
      <p class="overlay">
        <strong>Trainer's logprobs</strong> ({printable(file)}){": "}
        {found === null ? (
          "not recorded for this branch."
        ) : (
          <>
            {text === null
              ? "nothing could be compared"
              : `${count(found.difference.tokens)} of ${count(trained)} trained tokens: ${text}`}
            {found.largestAt !== null && (
              <>
                {" "}
                at place {count(found.largestAt)}
                {turn !== undefined && (
                  <>
                    {" "}
                    (<a href={linkTo(route.value.parts, { t: 1, b: branch, turn })}>turn {turn}</a>)
                  </>
                )}
              </>
            )}
            {found.missing > 0 && `; not recorded for ${plural(found.missing, "trained token")}`}
            {found.missing + found.difference.tokens < trained &&
              `; no sampled logprob recorded for ${plural(trained - found.missing - found.difference.tokens, "trained token")}`}
            .
          </>
        )}
      </p>
      {problems.length > 0 && (
        <ul class="dropped">
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </>
  );
}

const colourings: readonly Colouring[] = ["difference", "logprob"];
const colourNames: Readonly<Record<Colouring, string>> = {
  difference: "trainer's logprob differs by more than",
  logprob: "logprob below",
};

/** `choose`: sets the meaning of the colours; `null` if the reader cannot choose. */
function Legend({
  colouring,
  choose,
}: {
  readonly colouring: Colouring;
  readonly choose: ((colouring: Colouring) => void) | null;
}) {
  return (
    <p class="legend">
      <span class="sample observed">observed</span> <span class="sample trained">sampled, trained</span>{" "}
      <span class="sample masked">sampled, masked</span>{" "}
      {choose === null ? (
        <span class="quiet"> {colourNames[colouring]} </span>
      ) : (
        colourings.map((one) => (
          <button key={one} aria-pressed={one === colouring} onClick={() => choose(one)}>
            {colourNames[one]}
          </button>
        ))
      )}
      {colourBounds[colouring].map((bound, index) => (
        <span key={bound} class={`sample p${index}`}>
          {String(bound).replace("-", "−")}
        </span>
      ))}
    </p>
  );
}

type PaneProps = { readonly layout: BranchLayout; readonly turn: number | null; readonly colouring: Colouring };

function Pane({ layout, turn, colouring }: PaneProps) {
  const holder = useRef<HTMLDivElement>(null);
  const [token, setToken] = useState<string>(
    "Point at a token, or use the arrow keys: its id, logprob and weights stand here.",
  );
  useEffect(() => {
    const pane = new TokenPane(holder.current!, { layout, colouring, say: setToken });
    if (turn !== null) holder.current!.querySelector(`[data-turn="${turn}"]`)?.scrollIntoView({ block: "start" });
    return () => pane.close();
  }, [layout, colouring]);
  return (
    <>
      <div class="token-text" ref={holder} tabIndex={0} role="document" aria-label="Tokens" />
      <p class="token-line" role="status">
        {token}
      </p>
    </>
  );
}

type Drawn = { readonly piece: Piece; readonly chunk: Chunk; readonly node: Text };

/** Time without scrolling after which the tokens near the view are coloured. */
const restMs = 100;

/** Draws a layout into an element, and colours the tokens near the view. */
class TokenPane {
  readonly #element: HTMLElement;
  readonly #colouring: Colouring;
  readonly #say: (text: string) => void;
  readonly #drawn = new Map<Element, Drawn>();
  readonly #chunks: Element[] = [];
  readonly #ranges = new Map<Element, readonly (readonly [Highlight, Range])[]>();
  readonly #watch: IntersectionObserver;
  readonly #waiting = new Map<Element, IntersectionObserverEntry>();
  #rest: ReturnType<typeof setTimeout> | undefined;
  readonly #highlights: readonly Highlight[];
  readonly #current: Highlight | null;
  #at: { readonly element: Element; readonly token: number } | null = null;

  constructor(
    element: HTMLElement,
    {
      layout,
      colouring,
      say,
    }: { readonly layout: BranchLayout; readonly colouring: Colouring; readonly say: (text: string) => void },
  ) {
    this.#element = element;
    this.#colouring = colouring;
    this.#say = say;
    const registry = typeof Highlight === "undefined" ? undefined : CSS.highlights;
    this.#highlights = registry === undefined ? [] : colourBounds[colouring].map(() => new Highlight());
    this.#current = registry === undefined ? null : new Highlight();
    for (const [index, highlight] of this.#highlights.entries()) registry?.set(`p${index}`, highlight);
    if (this.#current !== null) {
      this.#current.priority = 1;
      registry?.set("current-token", this.#current);
    }
    this.#watch = new IntersectionObserver((entries) => this.#note(entries), { rootMargin: "600px" });
    element.replaceChildren(...inRuns(layout.pieces.map((piece) => this.#section(piece))));
    element.addEventListener("pointermove", this.#point);
    element.addEventListener("keydown", this.#step);
    element.addEventListener("copy", this.#copy);
  }

  close(): void {
    this.#watch.disconnect();
    clearTimeout(this.#rest);
    this.#element.removeEventListener("pointermove", this.#point);
    this.#element.removeEventListener("keydown", this.#step);
    this.#element.removeEventListener("copy", this.#copy);
    for (const highlight of [...this.#highlights, this.#current]) highlight?.clear();
  }

  #section(piece: Piece): Part {
    const section = document.createElement("section");
    section.className = `piece ${piece.kind}`;
    if (piece.kind !== "observed") section.dataset["turn"] = String(piece.turn.index);
    const label = document.createElement("h3");
    label.textContent = labelOf(piece);
    const text = document.createElement("div");
    text.className = "piece-text";
    let lines = 1;
    const chunks = chunksOf(piece).map((chunk): Part => {
      const own = linesOf(chunk.text);
      lines += own;
      const element = sized(document.createElement("div"), own);
      element.className = "chunk";
      const node = document.createTextNode(shownText(chunk.text));
      element.append(node);
      this.#drawn.set(element, { piece, chunk, node });
      this.#chunks.push(element);
      if (piece.logprobs !== null) this.#watch.observe(element);
      return { element, skippable: 1, lines: own };
    });
    text.append(...inRuns(chunks));
    section.append(label, text);
    return { element: section, skippable: text.childElementCount, lines };
  }

  /**
   * The browser places all ranges again whenever one changes, so changes wait until scrolling
   * stops.
   */
  #note(entries: readonly IntersectionObserverEntry[]): void {
    for (const entry of entries) this.#waiting.set(entry.target, entry);
    clearTimeout(this.#rest);
    const isFirst = this.#ranges.size === 0;
    this.#rest = setTimeout(
      () => {
        for (const entry of this.#waiting.values()) this.#seen(entry);
        this.#waiting.clear();
      },
      isFirst ? 0 : restMs,
    );
  }

  #seen({ target, isIntersecting }: IntersectionObserverEntry): void {
    const known = this.#ranges.get(target);
    if (!isIntersecting) {
      for (const [highlight, range] of known ?? []) highlight.delete(range);
      this.#ranges.delete(target);
      return;
    }
    const drawn = this.#drawn.get(target);
    if (known !== undefined || drawn === undefined || this.#highlights.length === 0) return;
    const { piece, chunk, node } = drawn;
    const ranges: (readonly [Highlight, Range])[] = [];
    for (let at = chunk.from; at < chunk.to;) {
      const found = colourClass(piece, at, this.#colouring);
      let end = at + 1;
      while (end < chunk.to && colourClass(piece, end, this.#colouring) === found) end++;
      if (found !== -1) {
        const range = rangeOf(node, chunk, at, end);
        this.#highlights[found]!.add(range);
        ranges.push([this.#highlights[found]!, range]);
      }
      at = end;
    }
    this.#ranges.set(target, ranges);
  }

  readonly #point = (event: PointerEvent): void => {
    const caret = caretAt(event.clientX, event.clientY);
    const element = caret?.node.parentElement ?? null;
    const drawn = element === null ? undefined : this.#drawn.get(element);
    if (drawn === undefined || caret === null) return;
    this.#show(element!, drawn.chunk.from + tokenAt(drawn.chunk.starts, caret.offset));
  };

  readonly #step = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const step = event.key === "ArrowLeft" ? -1 : 1;
    const element = this.#at?.element ?? this.#chunks[0];
    if (element === undefined) return;
    const { chunk } = this.#drawn.get(element)!;
    const token = this.#at === null ? chunk.from : this.#at.token + step;
    if (token >= chunk.from && token < chunk.to) return this.#show(element, token);
    const other = this.#chunks[this.#chunks.indexOf(element) + step];
    if (other === undefined) return;
    const { chunk: next } = this.#drawn.get(other)!;
    this.#show(other, step === 1 ? next.from : next.to - 1);
    other.scrollIntoView({ block: "nearest" });
  };

  /** The text without labels, and without the breaks between chunks. */
  readonly #copy = (event: ClipboardEvent): void => {
    const selection = getSelection();
    if (selection === null || selection.isCollapsed || event.clipboardData === null) return;
    const range = selection.getRangeAt(0);
    const parts: string[] = [];
    for (const element of this.#chunks) {
      if (!range.intersectsNode(element)) continue;
      const { node, chunk } = this.#drawn.get(element)!;
      const start = range.startContainer === node ? range.startOffset : 0;
      const end = range.endContainer === node ? range.endOffset : chunk.text.length;
      parts.push(chunk.text.slice(start, end));
    }
    if (parts.length === 0) return;
    event.clipboardData.setData("text/plain", wellFormed(parts.join("")));
    event.preventDefault();
  };

  #show(element: Element, token: number): void {
    const { piece, chunk, node } = this.#drawn.get(element)!;
    if (this.#at?.token === token && this.#at.element === element) return;
    this.#at = { element, token };
    this.#current?.clear();
    this.#current?.add(rangeOf(node, chunk, token, token + 1));
    this.#say(
      tokenLine(piece, token, chunk.text.slice(chunk.starts[token - chunk.from], chunk.starts[token - chunk.from + 1])),
    );
  }
}

function labelOf(piece: Piece): string {
  const { turn, kind, reason, tokens, reward } = piece;
  const facts = [
    `turn ${turn.index}, ${kind === "observed" ? "observed" : "sampled"}`,
    plural(tokens.length, "token"),
    kind === "trained" ? "trained" : `not trained: ${reason}`,
    kind === "observed" ? null : weightsText(turn),
    kind === "observed" || turn.finish.reason === "stop" ? null : `ended by ${turn.finish.reason}`,
    kind !== "observed" && piece.logprobs === null ? "no logprobs recorded" : null,
    kind === "observed" && turn.spelledTokens > 0
      ? `${plural(turn.spelledTokens, "control token")} spelled out, which are text`
      : null,
    kind === "observed" && turn.deviation !== null ? `not as the template writes it: ${turn.deviation}` : null,
    reward === null ? null : `reward ${reward}`,
  ];
  return printable(facts.filter((fact) => fact !== null).join(" · "));
}

function tokenLine({ turn, kind, start, tokens, logprobs, trainer, reason }: Piece, at: number, text: string): string {
  const logprob = logprobs?.[at];
  const trained = trainer?.[at];
  const span = weightSpanAt(turn, at);
  const parts = [
    JSON.stringify(printable(text)),
    `id ${tokens[at]}`,
    `place ${count(start + at)}`,
    `turn ${turn.index}`,
    logprob === undefined ? null : `logprob ${logprob.toFixed(4)} (${(Math.exp(logprob) * 100).toPrecision(3)} %)`,
    trained === undefined ? null : trainerText(trained, logprob),
    kind === "observed" ? "observed" : kind === "trained" ? "trained" : reason,
    kind === "observed" || span === null ? null : span,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

function trainerText(logprob: number, sampled: number | undefined): string {
  if (Number.isNaN(logprob)) return "trainer's logprob not recorded";
  const distance = sampled === undefined ? null : logprob - sampled;
  return `trainer's logprob ${logprob.toFixed(4)}${distance === null ? "" : ` (${distance < 0 ? "" : "+"}${distance.toFixed(4)})`}`;
}

function weightSpanAt({ weightSpans }: Turn, at: number): string | null {
  let end = 0;
  for (const { tokenCount, dispatch, reply } of weightSpans) {
    end += tokenCount;
    if (at >= end) continue;
    if (dispatch === null && reply === null) return null;
    return `weights ${reply ?? "?"}${dispatch === null || dispatch === reply ? "" : `, asked for at ${dispatch}`}`;
  }
  return null;
}

/** Invisible characters keep their length here, because ranges count characters. */
function shownText(text: string): string {
  return controlsShown(text).replaceAll(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "␦");
}

function rangeOf(node: Text, chunk: Chunk, from: number, to: number): Range {
  const range = new Range();
  range.setStart(node, chunk.starts[from - chunk.from]!);
  range.setEnd(node, chunk.starts[to - chunk.from]!);
  return range;
}

/** The token that holds a character; the last one that begins at or before it. */
function tokenAt(starts: Uint32Array, offset: number): number {
  let [low, high] = [0, starts.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

function caretAt(x: number, y: number): { readonly node: Node; readonly offset: number } | null {
  if ("caretPositionFromPoint" in document) {
    const found = document.caretPositionFromPoint(x, y);
    return found === null ? null : { node: found.offsetNode, offset: found.offset };
  }
  const range = (document as { caretRangeFromPoint?: (x: number, y: number) => Range | null }).caretRangeFromPoint?.(
    x,
    y,
  );
  return range === undefined || range === null ? null : { node: range.startContainer, offset: range.startOffset };
}
