// The groups of one step of a training: their tasks, rewards, and whether they taught something.

import { ask, isExported } from "./api.ts";
import { count, printable, reward } from "./format.tsx";
import { useLoaded, Waiting } from "./load.tsx";
import { amend } from "./route.ts";
import type { Training, TrainingGroup, TrainingStep } from "../../src/viewer/wire/index.ts";

/** `step`: the step that is open; `null` for none. */
export function StepGroups({ training, step }: { readonly training: Training; readonly step: number | null }) {
  const { facts, steps, hasGroups } = training;
  const numbers = steps.flatMap((one) => one["step"] ?? []);
  if (isExported()) return null;
  if (!hasGroups) return <p class="quiet">The groups of its steps are not recorded.</p>;
  return (
    <section aria-label="Groups of a step">
      <label>
        groups of step{" "}
        <select
          value={step === null ? "" : String(step)}
          onChange={({ currentTarget: { value } }) => amend({ step: value })}
        >
          <option value="">choose one, or click a curve</option>
          {numbers.map((number) => (
            <option key={number} value={String(number)}>
              {number}
            </option>
          ))}
        </select>
      </label>
      {step !== null && <Groups run={facts.key} step={step} />}
    </section>
  );
}

function Groups({ run, step }: { readonly run: string; readonly step: number }) {
  const found = useLoaded(`step ${run} ${step}`, () => ask<TrainingStep>("step", { run, step }));
  return (
    <Waiting state={found}>
      {({ groups }) =>
        groups === null ? (
          <p class="quiet">The groups of step {step} are not recorded.</p>
        ) : (
          <>
            <p class="quiet" role="status">
              {count(groups.filter(({ taught }) => taught).length)} of {count(groups.length)} groups of step {step}{" "}
              taught something.
            </p>
            <div class="table" tabIndex={0} role="region" aria-label={`Groups of step ${step}`}>
              <table>
                <thead>
                  <tr>
                    {["task", "taught", "mean reward", "rewards", "format errors", "sampled tokens"].map((label) => (
                      <th key={label} scope="col" class={label === "task" || label === "rewards" ? "" : "number"}>
                        {label}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {groups.map((group, at) => (
                    <Row key={`${group.task} ${at}`} group={group} />
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )
      }
    </Waiting>
  );
}

function Row({ group: { task, taught, rewards, problems, sampledTokens } }: { readonly group: TrainingGroup }) {
  const known = rewards.filter((one) => one !== null);
  const mean = known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0) / known.length;
  return (
    <tr>
      <td class="id">{printable(task)}</td>
      <td class="number">{taught ? "yes" : "no"}</td>
      <td class="number">{reward(mean)}</td>
      <td>{rewards.map(reward).join(" ")}</td>
      <td class="number">{problems === null ? "–" : count(problems)}</td>
      <td class="number">{sampledTokens === null ? "–" : count(sampledTokens)}</td>
    </tr>
  );
}
