// The answer of a judge: a score for each criterion with its reason; any other answer as it is.

import type { PlainJson, PlainObject } from "../../src/viewer/wire/index.ts";
import { printable } from "./format.tsx";

type Verdict = { readonly name: string; readonly score: string; readonly reason: string };

export function JudgeAnswer({ answer }: { readonly answer: string }) {
  const verdicts = readVerdicts(answer);
  if (verdicts === null) return <div class="text">{printable(answer)}</div>;
  return (
    <dl class="verdicts">
      {verdicts.map(({ name, score, reason }) => (
        <div key={name}>
          <dt>
            {printable(name)} <strong>{printable(score)}</strong>
          </dt>
          <dd>{printable(reason)}</dd>
        </div>
      ))}
    </dl>
  );
}

/** `null` if the answer is not an object of scores. Models put fences around their JSON. */
function readVerdicts(answer: string): readonly Verdict[] | null {
  const text = answer.slice(answer.indexOf("{"), answer.lastIndexOf("}") + 1);
  let value: PlainJson;
  try {
    value = JSON.parse(text) as PlainJson;
  } catch {
    return null;
  }
  const entries = Object.entries(objectOf(value) ?? {});
  const verdicts = entries.flatMap(([name, given]): Verdict[] => {
    const parts = objectOf(given);
    const score = parts?.["score"];
    if (parts === null || (typeof score !== "number" && typeof score !== "string" && typeof score !== "boolean"))
      return [];
    const others = Object.entries(parts).filter(([key]) => key !== "score");
    const reason = others.map(([key, part]) => `${key === "reason" ? "" : `${key}: `}${textOf(part)}`).join("\n");
    return [{ name, score: String(score), reason }];
  });
  return verdicts.length > 0 && verdicts.length === entries.length ? verdicts : null;
}

function objectOf(value: PlainJson): PlainObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as PlainObject) : null;
}

const textOf = (value: PlainJson): string => (typeof value === "string" ? value : JSON.stringify(value));
