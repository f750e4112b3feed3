// Episodes that contain a text, shown as they are found.

import { useEffect, useState } from "preact/hooks";
import type { Hit, SearchEnd } from "../../src/viewer/wire/index.ts";
import { search } from "./api.ts";
import { plural, printable, Reward } from "./format.tsx";
import { linkTo } from "./route.ts";

export function Hits({ run, text }: { readonly run: string; readonly text: string }) {
  const [hits, setHits] = useState<readonly Hit[]>([]);
  const [end, setEnd] = useState<SearchEnd | string | null>(null);
  useEffect(() => {
    const controller = new AbortController();
    const found: Hit[] = [];
    let isWaiting = false;
    setHits([]);
    setEnd(null);
    const show = (): void => {
      isWaiting = false;
      setHits([...found]);
    };
    const onHit = (hit: Hit): void => {
      found.push(hit);
      if (!isWaiting) requestAnimationFrame(show);
      isWaiting = true;
    };
    const find = async (): Promise<void> => {
      try {
        const value = await search(run, text, { onHit, signal: controller.signal });
        show();
        setEnd(value);
      } catch (error) {
        if (!controller.signal.aborted) setEnd(error instanceof Error ? error.message : String(error));
      }
    };
    void find();
    return () => controller.abort();
  }, [run, text]);
  return (
    <>
      <p class="quiet" role="status">
        {plural(hits.length, "episode")} with “{printable(text)}”
        {end === null
          ? " so far …"
          : typeof end === "string"
            ? `. ${end}`
            : end.isWhole
              ? ""
              : `, in the latest ${plural(end.episodes, "episode")}; there are more`}{" "}
        <a href={linkTo([run])}>show all</a>
      </p>
      <ol class="hits">
        {hits.map((hit) => (
          <li key={hit.number}>
            <a href={linkTo([run, "episode", hit.number], { find: text })}>
              <span class="hit-number">{hit.number}</span> <Reward row={{ reward: hit.reward, outcome: "completed" }} />{" "}
              <span class="excerpt">
                {printable(hit.before)}
                <mark>{printable(hit.match)}</mark>
                {printable(hit.after)}
              </span>
            </a>
          </li>
        ))}
      </ol>
    </>
  );
}
