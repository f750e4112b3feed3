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
import { Home } from "./home.tsx";
import { useKeys } from "./keys.ts";
import { useLoaded, Waiting } from "./load.tsx";
import { focusBox } from "./box.tsx";
import { Overview } from "./overview.tsx";
import { linkTo, route } from "./route.ts";
import { Tasks } from "./tasks.tsx";
import { TrainingPage } from "./training.tsx";

function App() {
  const runs = useLoaded("runs", () => ask<readonly RunFacts[]>("runs"));
  // Where none was named, those below a folder are listed.
  return (
    <Waiting state={runs} page="Runs">
      {(value) => (value.length > 0 ? <Named runs={value} /> : <Listed />)}
    </Waiting>
  );
}

/** Runs that were named. */
function Named({ runs }: { readonly runs: readonly RunFacts[] }) {
  const { parts } = route.value;
  const canCompare = runs.filter(({ hasEpisodes }) => hasEpisodes).length > 1;
  // True if two runs were named for a comparison.
  const isCompare = canCompare && (parts[0] ?? "compare") === "compare";
  const run = isCompare ? undefined : (runs[Number(parts[0] ?? 0)] ?? runs[0]);
  const compare = canCompare && (
    <a href={linkTo(["compare"])} aria-current={run === undefined ? "page" : undefined}>
      compare
    </a>
  );
  return (
    <Page runs={runs} run={run} last={compare}>
      {isCompare ? <Compare pair={null} /> : <Part run={run} runs={runs} />}
    </Page>
  );
}

/** Runs below a folder: the list, or one that was chosen there. */
function Listed() {
  const { parts, query } = route.value;
  const [key] = parts;
  const pair = [query.get("a"), query.get("b")] as const;
  const isPair = key === "compare" && pair[0] !== null && pair[1] !== null;
  const isRun = key !== undefined && !isPair;
  const loaded = useLoaded(`facts ${isRun ? key : ""}`, () =>
    isRun ? ask<RunFacts>("facts", { run: key }) : Promise.resolve(null),
  );
  // The answer of the run before stays until that of this one arrives.
  const run = isRun && loaded.type === "ready" && loaded.value?.key === key ? loaded.value : undefined;
  const isHere = key === undefined;
  const home = (
    <a href={linkTo([])} aria-current={isHere ? "page" : undefined}>
      runs
    </a>
  );
  return (
    <Page
      runs={run === undefined ? [] : [run]}
      run={run}
      first={home}
      last={isPair && <span aria-current="page">compare</span>}
    >
      {isHere ? (
        <Home />
      ) : isPair ? (
        <Compare key={pair.join(" ")} pair={pair as readonly [string, string]} />
      ) : (
        <Waiting state={loaded} page="Run">
          {() => (run === undefined ? <p class="quiet">Loading …</p> : <Part run={run} runs={[]} />)}
        </Waiting>
      )}
    </Page>
  );
}

type PageProps = Omit<HeadProps, "onHelp"> & { readonly children: ComponentChildren };

function Page({ children, ...head }: PageProps) {
  const [isHelp, setHelp] = useState(false);
  useKeys({
    "/": () => focusBox(),
    "?": () => setHelp(!isHelp),
    ...(isHelp ? { Escape: () => setHelp(false) } : {}),
  });
  return (
    <>
      <Head {...head} onHelp={() => setHelp(true)} />
      <Guard key={route.value.parts.join("/")}>{children}</Guard>
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

/** `runs`: all that were named. */
function Part({ run, runs }: { readonly run: RunFacts | undefined; readonly runs: readonly RunFacts[] }) {
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
      return run.hasEpisodes ? (
        <Overview key={run.key} facts={run} />
      ) : (
        <TrainingPage facts={run} others={runs.filter((one) => one.hasTraining && one !== run)} />
      );
  }
}

type HeadProps = {
  readonly runs: readonly RunFacts[];
  /** The run to show; undefined if runs are compared. */
  readonly run: RunFacts | undefined;
  /** Links before and after the runs. */
  readonly first?: ComponentChildren;
  readonly last?: ComponentChildren;
  readonly onHelp: () => void;
};

function Head({ runs, run, first, last, onHelp }: HeadProps) {
  const [part = ""] = route.value.parts.slice(1);
  const item = (name: string, label: string, link: string) => (
    <a href={link} aria-current={part === name ? "page" : undefined}>
      {label}
    </a>
  );
  return (
    <nav class="head" aria-label="Pages">
      {first}
      {runs.map((one) => (
        <a
          key={one.key}
          class="run-name"
          href={linkTo([one.key])}
          title={one.location}
          aria-current={one === run && part === "" ? "page" : undefined}
        >
          {printable(one.name)}
        </a>
      ))}
      {last}
      {run?.hasEpisodes === true && !isExported() && item("tasks", "tasks", linkTo([run.key, "tasks"]))}
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
  [
    "/",
    "the box: a number opens an episode, reward < 1 filters, “text in quotes” searches; words filter the list of runs",
  ],
  ["j k", "next and previous episode: of the group first"],
  ["t", "conversation or tokens"],
  ["g", "the group side by side"],
  ["f", "find in the episode: Enter shows the next occurrence, Shift-Enter the one before"],
  ["y n", "mark the episode as right or wrong; the same key again takes the mark back"],
  ["1 2 3 4", "wrong, by the fault of the agent, the user, the environment, the infrastructure"],
  ["w", "why: the reason of the mark"],
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
