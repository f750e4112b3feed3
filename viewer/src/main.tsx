// The page: its current part, its head, its keys.

import { Component, type ComponentChildren, render } from "preact";
import { useState } from "preact/hooks";
import type { RunFacts } from "../../src/viewer/wire/index.ts";
import { ask, isExported, readEmbedded } from "./api.ts";
import { theme } from "./chart.tsx";
import { Compare } from "./compare.tsx";
import { Episode } from "./episode.tsx";
import { printable } from "./format.tsx";
import { Group } from "./group.tsx";
import { useKeys } from "./keys.ts";
import { useLoaded, Waiting } from "./load.tsx";
import { focusBox, Overview } from "./overview.tsx";
import { linkTo, route } from "./route.ts";
import { Tasks } from "./tasks.tsx";
import { TrainingPage } from "./training.tsx";

function App() {
  const runs = useLoaded("runs", () => ask<readonly RunFacts[]>("runs"));
  return <Waiting state={runs}>{(value) => <Page runs={value} />}</Waiting>;
}

function Page({ runs }: { readonly runs: readonly RunFacts[] }) {
  const [isHelp, setHelp] = useState(false);
  useKeys({
    "/": () => focusBox(),
    "?": () => setHelp(!isHelp),
    ...(isHelp ? { Escape: () => setHelp(false) } : {}),
  });
  const { parts } = route.value;
  const canCompare = runs.filter(({ hasEpisodes }) => hasEpisodes).length > 1;
  // True if two runs were named for a comparison.
  const isCompare = canCompare && (parts[0] ?? "compare") === "compare";
  const run = isCompare ? undefined : (runs[Number(parts[0] ?? 0)] ?? runs[0]);
  return (
    <>
      <Head runs={runs} run={run} canCompare={canCompare} onHelp={() => setHelp(true)} />
      <Guard key={parts.join("/")}>{isCompare ? <Compare runs={runs} /> : <Part run={run} />}</Guard>
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function Part({ run }: { readonly run: RunFacts | undefined }) {
  const current = route.value;
  if (run === undefined) return <main>There is no run.</main>;
  switch (current.parts[1]) {
    case "episode":
      return <Episode facts={run} route={current} />;
    case "group":
      return <Group facts={run} route={current} />;
    case "tasks":
      return <Tasks facts={run} route={current} />;
    default:
      return run.hasEpisodes ? <Overview key={run.index} facts={run} /> : <TrainingPage facts={run} />;
  }
}

type HeadProps = {
  readonly runs: readonly RunFacts[];
  /** The run to show; undefined if runs are compared. */
  readonly run: RunFacts | undefined;
  readonly canCompare: boolean;
  readonly onHelp: () => void;
};

function Head({ runs, run, canCompare, onHelp }: HeadProps) {
  const [part = ""] = route.value.parts.slice(1);
  const item = (name: string, label: string, link: string) => (
    <a href={link} aria-current={part === name ? "page" : undefined}>
      {label}
    </a>
  );
  return (
    <nav class="head" aria-label="Pages">
      {runs.map((one) => (
        <a
          key={one.index}
          class="run-name"
          href={linkTo([one.index])}
          title={one.location}
          aria-current={one === run && part === "" ? "page" : undefined}
        >
          {printable(one.name)}
        </a>
      ))}
      {canCompare && (
        <a href={linkTo(["compare"])} aria-current={run === undefined ? "page" : undefined}>
          compare
        </a>
      )}
      {run?.hasEpisodes === true && !isExported() && item("tasks", "tasks", linkTo([run.index, "tasks"]))}
      <span class="fill" />
      <button class="quiet" onClick={switchTheme} title="dark or light">
        <span aria-hidden="true">◐</span>
        <span class="unseen">dark or light</span>
      </button>
      <button class="quiet" onClick={onHelp} title="keys (?)">
        <span aria-hidden="true">?</span>
        <span class="unseen">keys</span>
      </button>
    </nav>
  );
}

function switchTheme(): void {
  const root = document.documentElement;
  const isDark =
    root.style.colorScheme === ""
      ? matchMedia("(prefers-color-scheme: dark)").matches
      : root.style.colorScheme === "dark";
  root.style.colorScheme = isDark ? "light" : "dark";
  theme.value++;
}

const keys: readonly (readonly [string, string])[] = [
  ["/", "the box: a number opens an episode, reward < 1 filters, “text in quotes” searches"],
  ["j k", "next and previous episode: of the group first"],
  ["t", "conversation or tokens"],
  ["g", "the group side by side"],
  ["← →", "token by token, where tokens have the focus"],
  ["?", "this help"],
];

function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <dialog
      class="help"
      aria-label="Keys"
      ref={(element) => void (element !== null && !element.open && element.showModal())}
      onClose={onClose}
    >
      <h2>Keys</h2>
      <dl>
        {keys.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <button onClick={onClose}>close</button>
    </dialog>
  );
}

/** Limits the damage of a malformed record of another tool to the view that shows it. */
class Guard extends Component<{ readonly children: ComponentChildren }, { readonly message: string | null }> {
  override state: { readonly message: string | null } = { message: null };

  override componentDidCatch(error: unknown): void {
    this.setState({ message: error instanceof Error ? error.message : String(error) });
  }

  override render() {
    const { message } = this.state;
    if (message === null) return this.props.children;
    return (
      <main>
        <p class="refused" role="alert">
          This cannot be shown: {printable(message)}
        </p>
      </main>
    );
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme.value++);
await readEmbedded();
render(<App />, document.getElementById("app")!);
