// Checks that an agent can get the information in the agendas of tasks. Each phrase, proposal and
// settling sentence is said to the agenda-based user itself, so that phrases it does not understand
// are found before a run. It does not check that a dialogue makes sense.

import type { Agenda, AgendaConfirmation, AgendaGoal, AgendaSlot, Task, UserLine } from "../core/index.ts";
import { agendaUser } from "../users/index.ts";

/**
 * Parts of an agenda that no utterance of an agent reaches, one sentence part each; empty when all
 * parts can be reached.
 */
export async function agendaGaps(task: Task): Promise<readonly string[]> {
  if (task.agenda === null) return [];
  const gaps: string[] = [];
  for (const goal of task.agenda.goals) {
    const probe = { task, agenda: task.agenda, goal };
    gaps.push(...(await slotGaps(task.agenda.slots, probe)), ...(await slotGaps(goal.slots, probe)));
    gaps.push(...(await confirmationGaps(goal.confirmation, probe)));
    if (goal.secondThought !== null) {
      const { slots, confirmation } = goal.secondThought;
      const changed = { ...probe, goal: { ...goal, slots, confirmation, secondThought: null } };
      gaps.push(...(await slotGaps(slots, changed)), ...(await confirmationGaps(confirmation, changed)));
    }
    if (goal.confirmation === null && goal.settledBy.length === 0) {
      gaps.push(`goal "${goal.name}" has neither a confirmation nor settledBy: only a refusal settles it`);
    }
  }
  return [...new Set(gaps)];
}

type Probe = { readonly task: Task; readonly agenda: Agenda; readonly goal: AgendaGoal };

async function slotGaps(slots: readonly AgendaSlot[], probe: Probe): Promise<string[]> {
  const gaps: string[] = [];
  for (const slot of slots) {
    if (slot.phrases.length === 0) gaps.push(`slot "${slot.name}" has no phrase that asks for it`);
    for (const phrase of slot.phrases) {
      const alone = { ...probe, agenda: { ...probe.agenda, slots: [] }, goal: { ...probe.goal, slots: [slot] } };
      const isHeard = (await answer(`Please tell me the ${phrase}.`, alone)) !== null;
      if (!isHeard) gaps.push(`slot "${slot.name}" is not asked for by its phrase "${phrase}": ${heardForm(phrase)}`);
      else if ((await answer("Could you wait?", alone)) !== null) {
        gaps.push(`slot "${slot.name}" is asked for by every question, because its phrase "${phrase}" is part of each`);
      }
    }
  }
  return gaps;
}

function heardForm(phrase: string): string {
  return phrase === phrase.toLowerCase()
    ? "write words of letters and digits, without signs in them"
    : "write it in lower case";
}

async function confirmationGaps(confirmation: AgendaConfirmation | null, probe: Probe): Promise<string[]> {
  if (confirmation === null) return [];
  const { goal } = probe;
  const nameless = confirmation.mustName.some((ways) => ways.every((way) => way.trim() === ""));
  if (nameless) return [`goal "${goal.name}" has a thing in mustName without a way of naming it: no proposal is right`];
  const named = confirmation.mustName.map((ways) => ways.find((way) => way.trim() !== "")).join(", ");
  const plain = { ...goal, slots: [], confirmation, secondThought: null };
  const line = await say(`Shall I go ahead with ${named}?`, { ...probe, goal: plain });
  return /^(yes|still yes)\b/i.test(line.text)
    ? []
    : [`goal "${goal.name}" is not confirmed by a proposal that names ${named}: the user says "${line.text}"`];
}

/** The answer of the user if it comes from one of its slots; `null` for any other reply. */
async function answer(utterance: string, probe: Probe): Promise<string | null> {
  const { text } = await say(utterance, probe);
  return probe.goal.slots.some(({ answers }) => answers.includes(text)) ? text : null;
}

async function say(utterance: string, { task, agenda, goal }: Probe): Promise<UserLine> {
  const user = agendaUser().create({ ...task, agenda: { ...agenda, goals: [goal], patience: 9 } }, { seed: 1 });
  await user.open();
  return user.reply(utterance);
}
