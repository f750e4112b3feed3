import { describe, expect, it } from "vitest";
import { type EpisodeScore, evaluationOf } from "../graders/index.ts";
import { evaluationReport, readReports } from "./evaluation-report.ts";

const score = (taskId: string, taskIndex: number, reward: number | null, ending: string): EpisodeScore => ({
  recording: `${taskId} ${reward}`,
  taskId,
  taskIndex,
  contentHash: null,
  trial: 0,
  reward,
  outcome: reward === null ? "failed" : "completed",
  ending,
  turns: 3,
  toolCalls: null,
  toolErrors: {},
  problems: {},
  agentCost: 0.25,
  userCost: null,
  durations: { policy: 1000, user: 500, tools: 0 },
  fault: null,
});

const hostile = `a<b>&"c"\u0000\ud800|@all [x](http://h) ]]> \n`;
const scores = [
  score("t:0", 0, 1, "user_hung_up"),
  score(hostile, 1, 0, "max_turns"),
  score("t:2", 2, null, "engine/timeout"),
];
const evaluation = { title: `bookshop <train>`, evaluation: evaluationOf(scores), scores };

describe("evaluationReport()", () => {
  it("is JUnit: a case an episode, failures and errors apart, nothing that XML has no place for", () => {
    const text = evaluationReport("junit", evaluation);
    expect(text).toContain(
      '<testsuite name="bookshop &lt;train&gt;" tests="3" failures="1" errors="1" skipped="0" time="4.500">',
    );
    expect(text).toContain('<testcase classname="bookshop &lt;train&gt;" name="t:0 trial 0" time="1.500"/>');
    expect(text).toContain('<error type="engine/timeout" message="not graded: engine/timeout"/>');
    expect(text).toContain('<failure type="max_turns" message="reward 0, max_turns"/>');
    expect(text).toContain('name="a&lt;b&gt;&amp;&quot;c&quot;\ufffd\ufffd|@all [x](http://h) ]]&gt;   trial 0"');
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0008\ud800-\udfff]/);
    expect(text.match(/<testcase/g)).toHaveLength(3);
  });

  it("is Markdown whose cells hold text alone", () => {
    const text = evaluationReport("markdown", evaluation);
    expect(text).toContain("1 of 2 graded episodes passed, 1 were not graded; mean reward 0.500");
    expect(text).toContain("agent $0.75.");
    expect(text).toContain("<details><summary>2 of 3 tasks failed at least once</summary>");
    const row = text.split("\n").find((line) => line.includes("a&lt;b>"))!;
    expect(row).not.toMatch(/(?<!\\)[[\]]|<b>|@all/);
    expect(row.match(/(?<!\\)\|/g)).toHaveLength(5);
  });

  it("is named by kind and file", () => {
    expect(readReports("junit:a.xml, markdown:c:\\x.md")).toEqual([
      { kind: "junit", file: "a.xml" },
      { kind: "markdown", file: "c:\\x.md" },
    ]);
    for (const wrong of ["junit", "junit:", "html:a", ""]) expect(readReports(wrong)).toBeNull();
  });
});
