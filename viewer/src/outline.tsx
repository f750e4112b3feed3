// The outline of an episode: a bar of its time by what took it, and its turns as links, each at its
// place on the same axis.

import { useMemo, useState } from "preact/hooks";
import type { ShownEpisode } from "../../src/viewer/wire/index.ts";
import { count, duration, money, plural, printable } from "./format.tsx";
import { linkTo } from "./route.ts";
import { agentsByTurn, costOf, type Segment, type SegmentKind, segmentsOf, turnTitles } from "./timeline.ts";

const kinds: readonly SegmentKind[] = ["sampling", "waiting", "tool", "user", "judge", "program"];
const mostCharacters = 90;

type OutlineProps = {
  readonly episode: ShownEpisode;
  readonly run: string;
  readonly number: number;
  readonly mode: "t" | null;
};

export function Outline({ episode, run, number, mode }: OutlineProps) {
  const [isOpen, setOpen] = useState(false);
  const titles = useMemo(() => turnTitles(episode), [episode]);
  const cost = useMemo(() => costOf(episode), [episode]);
  if (cost === null || titles.size === 0) return null;
  const { promptTokens, cachedTokens, sampledTokens, seconds, dollars } = cost;
  return (
    <details class="outline" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        outline{" "}
        <span class="quiet">
          · {plural(titles.size, "turn")} in {duration(seconds * 1000)}
        </span>{" "}
        <span class="quiet">
          · prompts {count(promptTokens)} tokens
          {cachedTokens === null ? "" : `, ${count(cachedTokens)} of them cached`} · sampled {count(sampledTokens)}
          {dollars === 0 ? "" : ` · cost ${money(dollars)}`}
        </span>
      </summary>
      {isOpen && (
        <Turns
          episode={episode}
          titles={titles}
          link={(turn) => linkTo([run, "episode", number], { t: mode === null ? null : 1, turn })}
        />
      )}
    </details>
  );
}

type TurnsProps = {
  readonly episode: ShownEpisode;
  readonly titles: ReadonlyMap<number, string>;
  readonly link: (turn: number) => string;
};

/** Made when the outline is opened: an episode may have thousands of turns. */
function Turns({ episode, titles, link }: TurnsProps) {
  const segments = useMemo(() => segmentsOf(episode), [episode]);
  const total = segments.reduce((sum, { ms }) => sum + ms, 0);
  const agents = useMemo(() => agentsByTurn(episode), [episode]);
  const byTurn = new Map<number | null, Segment[]>();
  for (const segment of segments) {
    const own = byTurn.get(segment.turn);
    if (own === undefined) byTurn.set(segment.turn, [segment]);
    else own.push(segment);
  }
  return (
    <>
      {total > 0 && <Bar segments={segments} total={total} />}
      <ol class="outline-turns">
        {[...titles].map(([turn, title]) => {
          const own = byTurn.get(turn) ?? [];
          const spent = own.reduce((sum, { ms }) => sum + ms, 0);
          return (
            <li key={turn}>
              <a href={link(turn)}>turn {turn}</a>
              <span class="outline-title">
                {agents.has(turn) && <span class="quiet">{agents.get(turn)}</span>}{" "}
                {printable(title.replaceAll(/\s+/g, " ").slice(0, mostCharacters))}
              </span>
              <span class="axis" aria-hidden="true">
                {own.map((segment) => (
                  <span key={segment.startMs} class={`segment ${segment.kind}`} style={placed(segment, total)} />
                ))}
              </span>
              <span class="quiet">{own.length === 0 ? "" : duration(spent)}</span>
            </li>
          );
        })}
      </ol>
    </>
  );
}

function placed({ startMs, ms }: Segment, total: number): { readonly left: string; readonly width: string } {
  return { left: `${(100 * startMs) / total}%`, width: `${Math.max(0.4, (100 * ms) / total)}%` };
}

/** The whole time, in order, with a legend in words. */
function Bar({ segments, total }: { readonly segments: readonly Segment[]; readonly total: number }) {
  const sums = kinds.flatMap((kind) => {
    const ms = segments.reduce((sum, segment) => sum + (segment.kind === kind ? segment.ms : 0), 0);
    return ms > 0 ? [{ kind, ms }] : [];
  });
  const text = sums.map(({ kind, ms }) => `${kind} ${duration(ms)}`).join(", ");
  return (
    <>
      <div class="axis whole" role="img" aria-label={`Time: ${text}`}>
        {segments.map((segment) => (
          <span
            key={segment.startMs}
            class={`segment ${segment.kind}`}
            style={placed(segment, total)}
            title={`${segment.kind}: ${printable(segment.label)}, ${duration(segment.ms)}`}
          />
        ))}
      </div>
      <ul class="axis-legend quiet">
        {sums.map(({ kind, ms }) => (
          <li key={kind}>
            <span class={`swatch ${kind}`} aria-hidden="true" /> {kind} {duration(ms)}
          </li>
        ))}
      </ul>
    </>
  );
}
