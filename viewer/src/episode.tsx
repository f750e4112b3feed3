// One episode: its strip, and below it the conversation or the tokens.

import { useEffect, useMemo } from "preact/hooks";
import {
  decodeEpisode,
  type EpisodePage,
  notRecorded,
  type RunFacts,
  type StoredEpisode,
} from "../../src/viewer/wire/index.ts";
import { ask } from "./api.ts";
import { hideSecrets } from "./call-record.ts";
import { Blocks, Conversation } from "./conversation.tsx";
import { Find, focusFind } from "./find.tsx";
import { printable } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { MarkBox } from "./mark.tsx";
import { Outline } from "./outline.tsx";
import { type Route, go, linkTo } from "./route.ts";
import { Strip } from "./strip.tsx";
import { loadText, Tokens } from "./tokens.tsx";
import { Copy } from "./turn-tools.tsx";
import { useKeys } from "./keys.ts";

export function Episode({ facts, route: { parts, query } }: { readonly facts: RunFacts; readonly route: Route }) {
  const run = facts.key;
  const name = parts[2] ?? "";
  const page = useLoaded(`episode ${run} ${name}`, () => ask<EpisodePage<StoredEpisode>>("episode", { run, id: name }));
  return (
    <Waiting state={page} page="Episode">
      {(value) => <Shown key={value.row.number} facts={facts} page={value} query={query} />}
    </Waiting>
  );
}

function Shown({
  facts,
  page,
  query,
}: {
  readonly facts: RunFacts;
  readonly page: EpisodePage<StoredEpisode>;
  readonly query: URLSearchParams;
}) {
  const run = facts.key;
  const episode = useMemo(() => decodeEpisode(page.episode), [page]);
  const mode = query.has("t") ? "tokens" : query.has("r") ? "record" : "conversation";
  const isTokens = mode === "tokens";
  const { row, group, previous, next, trainer } = page;
  // Loads the token text in advance, so that the key t shows it at once.
  useEffect(() => {
    if (episode.trajectory.turns.length > 0) loadText(run, row.number).catch(() => undefined);
    document.title = `${row.number} · ${printable(row.id)}`;
    scrollTo(0, 0);
  }, [episode]);
  const kept = { t: isTokens ? 1 : null };
  const place = group.findIndex(({ number }) => number === row.number);
  useKeys({
    t: () => go(linkTo([run, "episode", row.number], { t: isTokens ? null : 1 })),
    j: () => {
      const to = group[place + 1]?.number ?? next;
      if (to !== null) go(linkTo([run, "episode", to], kept));
    },
    k: () => {
      const to = group[place - 1]?.number ?? previous;
      if (to !== null) go(linkTo([run, "episode", to], kept));
    },
    g: () => go(linkTo([run, "group", row.groupId])),
    f: focusFind,
  });
  const turn = numberIn(query, "turn");
  const missing = notRecorded(episode, facts);
  const reader = { episode, number: row.number, turn };
  return (
    <div class="episode">
      <Strip run={run} page={{ ...page, episode }} episode={episode} mode={mode} missing={missing}>
        <MarkBox facts={facts} row={row} initial={page.mark} />
      </Strip>
      {mode !== "record" && <Outline episode={episode} run={run} number={row.number} mode={isTokens ? "t" : null} />}
      <Find initial={query.get("find") ?? ""} version={`${row.id} ${mode}`} />
      {isTokens ? (
        <Tokens {...reader} run={run} branch={numberIn(query, "b")} missing={missing} trainer={trainer} />
      ) : mode === "record" ? (
        <Record stored={page.episode} />
      ) : (
        <Conversation {...reader} facts={facts} />
      )}
    </div>
  );
}

/** The episode as its file has it, without what looks like a key. */
function Record({ stored }: { readonly stored: StoredEpisode }) {
  const text = useMemo(() => hideSecrets(JSON.stringify(stored, null, 2)), [stored]);
  return (
    <main class="record">
      <p>
        <Copy label="copy the record" text={text} />
      </p>
      <Blocks text={text} isCode />
    </main>
  );
}

export function numberIn(query: URLSearchParams, key: string): number | null {
  const value = query.get(key);
  return value !== null && /^\d{1,9}$/.test(value) ? Number(value) : null;
}
