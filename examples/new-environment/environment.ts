// NAME, which starts as a desk that moves bookings of tours: three tools, four tasks, a grader.
// Replace it piece by piece; `npm test` checks that runs and rewards can rely on it.

import { defineEnvironment } from "trainable-agents/environments";

type Booking = { day: string; people: number };

/** The world of one episode. Plain data; every episode gets a copy from its task. */
type Desk = {
  bookings: Record<string, Booking>;
  freePlaces: Record<string, number>;
  /** Expected state at the end, and the required statement. No tool shows it to the policy. */
  goal: { booking: string; day: string; mustSay: string };
};

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

const task = (booking: string, asked: string, goal: { day: string; mustSay: string }) => ({
  agenda: visitor(booking, asked),
  instruction: `You have booking ${booking} and would like to take your tour on ${asked}.`,
  state: { bookings: { [booking]: tuesday }, freePlaces, goal: { booking, ...goal } },
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
      run: ({ booking }, desk, { signal }) => loadBooking(desk, String(booking), signal),
    },
    free_places: {
      description: "Shows how many places each day has left.",
      parameters: { type: "object", properties: {} },
      run: (_, desk) => desk.freePlaces,
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
      task("T-11", "Friday", { day: "Friday", mustSay: "moved" }),
      task("T-12", "Sunday", { day: "Tuesday", mustSay: "full" }),
    ],
    test: [
      task("T-21", "Friday", { day: "Friday", mustSay: "moved" }),
      task("T-22", "Tuesday", { day: "Tuesday", mustSay: "already" }),
    ],
  },
  // Correct: the booking has the requested day, and the visitor has been told.
  grade: ({ state: { bookings, goal }, said }) =>
    bookings[goal.booking]?.day === goal.day && said.some((line) => line.includes(goal.mustSay)) ? 1 : 0,
});
