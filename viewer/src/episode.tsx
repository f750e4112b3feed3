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
import { Conversation } from "./conversation.tsx";
import { printable } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { type Route, go, linkTo } from "./route.ts";
import { Strip } from "./strip.tsx";
import { loadText, Tokens } from "./tokens.tsx";
import { useKeys } from "./keys.ts";

export function Episode({ facts, route: { parts, query } }: { readonly facts: RunFacts; readonly route: Route }) {
  const run = facts.key;
  const name = parts[2] ?? "";
  const page = useLoaded(`episode ${run} ${name}`, () => ask<EpisodePage<StoredEpisode>>("episode", { run, id: name }));
  return (
    <Waiting state={page}>
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
  const isTokens = query.has("t");
  const { row, group, previous, next, trainer } = page;
  // Loads the token text in advance, so that the key t shows it at once.
  useEffect(() => {
    if (episode.trajectory.turns.length > 0) loadText(run, row.number).catch(() => undefined);
    document.title = `${row.number} · ${printable(row.id)}`;
    scrollTo(0, 0);
  }, [episode]);
  const mode = { t: isTokens ? 1 : null };
  const place = group.findIndex(({ number }) => number === row.number);
  useKeys({
    t: () => go(linkTo([run, "episode", row.number], { t: isTokens ? null : 1 })),
    j: () => {
      const to = group[place + 1]?.number ?? next;
      if (to !== null) go(linkTo([run, "episode", to], mode));
    },
    k: () => {
      const to = group[place - 1]?.number ?? previous;
      if (to !== null) go(linkTo([run, "episode", to], mode));
    },
    g: () => go(linkTo([run, "group", row.groupId])),
  });
  const turn = numberIn(query, "turn");
  const missing = notRecorded(episode, facts);
  const reader = { episode, run, number: row.number, turn };
  return (
    <div class="episode">
      <Strip run={run} page={{ ...page, episode }} episode={episode} isTokens={isTokens} missing={missing} />
      {isTokens ? (
        <Tokens {...reader} branch={numberIn(query, "b")} missing={missing} trainer={trainer} />
      ) : (
        <Conversation {...reader} find={query.get("find")} />
      )}
    </div>
  );
}

export function numberIn(query: URLSearchParams, key: string): number | null {
  const value = query.get(key);
  return value !== null && /^\d{1,9}$/.test(value) ? Number(value) : null;
}
