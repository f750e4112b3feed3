// NAME, which starts as a desk that moves bookings of tours: three tools, four tasks, a grader.
// Replace it piece by piece; `npm test` checks that runs and rewards can rely on it.

import { defineEnvironment } from "trainable-agents/environments";

type Booking = { day: string; people: number };

/** The world of one episode. Plain data; every episode gets a copy from its task. */
type Desk = {
  bookings: Record<string, Booking>;
  freePlaces: Record<string, number>;
  /** Marks of the policy's lookups: an answer that it did not look up is a guess. */
  seen: { booking: boolean; places: boolean };
  /** Expected state at the end, and the expected outcome. No tool shows it to the policy. */
  goal: { booking: string; day: string; outcome: Outcome };
};

/** The words for the three outcomes, of which the visitor must be told exactly the right one. */
const outcomes = ["moved", "full", "already"] as const;
type Outcome = (typeof outcomes)[number];

/** The outcomes that a line names. */
const named = (line: string): readonly Outcome[] => outcomes.filter((outcome) => line.includes(outcome));

/**
 * Stands for your database or service: pass the signal to `fetch`, so that a call ends when its
 * result is no longer needed.
 */
async function loadBooking(desk: Desk, id: string, signal: AbortSignal): Promise<Booking> {
  await Promise.resolve();
  signal.throwIfAborted();
  const booking = desk.bookings[id];
  // The policy reads this message after "Error: ", and can try again.
  if (booking === undefined) throw new Error(`there is no booking ${id}`);
  return booking;
}

/** A visitor who requests another day, gives the number when asked, and says yes only to that day. */
const visitor = (booking: string, day: string) => ({
  greetings: ["Hello.", "Good morning."],
  slots: [{ name: "booking", phrases: ["booking", "number"], answers: [`My booking is ${booking}.`] }],
  goals: [
    {
      name: "move",
      requests: [`Could we take our tour on ${day} instead?`],
      slots: [{ name: "day", phrases: ["which day", "what day"], answers: [`On ${day}, please.`] }],
      confirmation: { mustName: [[booking], [day]], corrections: [`No: ${booking}, to ${day}.`] },
      secondThought: null,
      settledBy: ["moved", "full", "already"],
      objections: [`Is there really nothing left on ${day}?`],
    },
  ],
  farewells: ["Thank you, goodbye."],
  patience: 4,
});

const tuesday: Booking = { day: "Tuesday", people: 3 };
const freePlaces = { Tuesday: 10, Friday: 5, Sunday: 2 };

const task = (booking: string, requested: string, goal: { day: string; outcome: Outcome }) => ({
  agenda: visitor(booking, requested),
  instruction: `You have booking ${booking} and would like to take your tour on ${requested}.`,
  state: {
    bookings: { [booking]: tuesday },
    freePlaces,
    seen: { booking: false, places: false },
    goal: { booking, ...goal },
  },
});

export default defineEnvironment<Desk>({
  name: "NAME",
  guidelines:
    "You move bookings of tours to another day. Ask for the booking number and look the booking up. A day needs free places for " +
    "all people of the booking. Say what you will do and wait for a yes before you move a booking; then say which day it was " +
    "moved to. When the day is full, say that it is full; when nothing is to be done, say that it is on that day already.",
  tools: {
    find_booking: {
      description: "Shows a booking.",
      parameters: { type: "object", properties: { booking: { type: "string" } }, required: ["booking"] },
      run: async ({ booking }, desk, { signal }) => {
        const found = await loadBooking(desk, String(booking), signal);
        desk.seen.booking = true;
        return found;
      },
    },
    free_places: {
      description: "Shows how many places each day has left.",
      parameters: { type: "object", properties: {} },
      run: (_, desk) => {
        desk.seen.places = true;
        return desk.freePlaces;
      },
    },
    move_booking: {
      description: "Moves a booking to another day.",
      parameters: {
        type: "object",
        properties: { booking: { type: "string" }, day: { type: "string", enum: ["Tuesday", "Friday", "Sunday"] } },
        required: ["booking", "day"],
      },
      run: async ({ booking, day }, desk, { signal }) => {
        const found = await loadBooking(desk, String(booking), signal);
        const free = desk.freePlaces[String(day)] ?? 0;
        if (free < found.people) throw new Error(`${String(day)} has ${free} places left`);
        desk.freePlaces[String(day)] = free - found.people;
        found.day = String(day);
        return found;
      },
    },
  },
  tasks: {
    train: [
      task("T-11", "Friday", { day: "Friday", outcome: "moved" }),
      task("T-12", "Sunday", { day: "Tuesday", outcome: "full" }),
    ],
    test: [
      task("T-21", "Friday", { day: "Friday", outcome: "moved" }),
      task("T-22", "Tuesday", { day: "Tuesday", outcome: "already" }),
    ],
  },
  // Correct: the booking has the expected day, the policy looked up what it says, and the last line
  // that names an outcome names the right one only. A policy that only claims, or that recites all
  // outcomes, earns nothing.
  grade: ({ state: { bookings, seen, goal }, said }) => {
    const last = said.map(named).findLast((found) => found.length > 0) ?? [];
    const isTold = last.length === 1 && last[0] === goal.outcome;
    const isLookedUp = seen.booking && (goal.outcome !== "full" || seen.places);
    return bookings[goal.booking]?.day === goal.day && isTold && isLookedUp ? 1 : 0;
  },
});
