// The tasks of a run, the least solved first; or only those that never pass.

import { useState } from "preact/hooks";
import type { RunFacts, TaskPage } from "../../src/viewer/wire/index.ts";
import { ask, isExported } from "./api.ts";
import { count, plural, printable, reward } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { linkTo, type Route } from "./route.ts";

export function Tasks({ facts, route: { query } }: { readonly facts: RunFacts; readonly route: Route }) {
  const run = facts.key;
  const never = query.has("never");
  const [shown, setShown] = useState(200);
  const page = useLoaded(`tasks ${run} ${never} ${shown}`, () =>
    ask<TaskPage>("tasks", isExported() ? { run, never } : { run, never, count: shown }),
  );
  return (
    <main>
      <h1>{never ? "Tasks that never pass" : "Tasks, the least solved first"}</h1>
      <Waiting state={page}>
        {({ tasks, matched, total }) => (
          <>
            <p class="quiet">
              {never ? `${count(matched)} of ${count(total)} tasks` : plural(total, "task")} ·{" "}
              <a href={linkTo([run, "tasks"], { never: never ? null : 1 })}>
                {never ? "show all tasks" : "those that never pass"}
              </a>
            </p>
            <div class="table" tabIndex={0} role="region" aria-label="Table of tasks">
              <table>
                <thead>
                  <tr>
                    <th scope="col">task</th>
                    <th scope="col" class="number">
                      passed
                    </th>
                    <th scope="col" class="number">
                      mean reward
                    </th>
                    <th scope="col">episodes</th>
                  </tr>
                </thead>
                <tbody>
                  {tasks.map((task) => (
                    <tr key={task.taskId}>
                      <td class="id">{printable(task.taskId)}</td>
                      <td class="number">
                        {task.passed} of {task.graded}
                      </td>
                      <td class="number">{reward(task.meanReward)}</td>
                      <td>
                        <a href={linkTo([run, "group", task.groupId])}>side by side</a> ·{" "}
                        <a href={linkTo([run], { task: task.taskId })}>{plural(task.episodes, "episode")}</a>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {tasks.length < matched && tasks.length < 1000 && (
              <button class="more" onClick={() => setShown(shown + 400)}>
                show more
              </button>
            )}
          </>
        )}
      </Waiting>
    </main>
  );
}
