// The airline: flights, reservations, users.

import { commonTools, findBrokenMethod } from "../common/common-tools.ts";
import { type Shape, shapeProblem } from "../table-shape.ts";
import type { TauDomain } from "../tool.ts";
import { field, objectField, textField } from "../../tables/index.ts";
import type { SharedBase } from "../world.ts";
import { changes } from "./changes.ts";
import { lookUps } from "./look-ups.ts";

const user: Shape = {
  fields: { payment_methods: { dictOf: { fields: { source: "text" } } }, reservations: { listOf: "any" } },
};

const flight: Shape = {
  fields: {
    origin: "text",
    destination: "text",
    scheduled_departure_time_est: "text",
    scheduled_arrival_time_est: "text",
    dates: { dictOf: { fields: { status: "text" } } },
  },
};

const reservation: Shape = {
  fields: {
    user_id: "text",
    cabin: "any",
    flights: {
      listOf: { fields: { flight_number: "any", date: "any", price: "number", origin: "any", destination: "any" } },
    },
    passengers: { listOf: "any" },
    payment_history: { listOf: { fields: { payment_id: "any", amount: "number" } } },
    nonfree_baggages: "number",
  },
};

/** What only flights that can be booked have. */
const bookable: Shape = { fields: { available_seats: { dictOf: "number" }, prices: { dictOf: "number" } } };

export const airlineDomain: TauDomain = {
  name: "airline",
  tables: { flights: flight, reservations: reservation, users: user },
  splits: ["test"],
  tools: [...commonTools, ...lookUps, ...changes],
  terminating: new Set(["transfer_to_human_agents"]),
  findBrokenReference,
};

function findBrokenReference(base: SharedBase): string | null {
  for (const [id, record] of base.table("flights")) {
    for (const [date, day] of objectField(record, "dates")) {
      if (!(day instanceof Map) || field(day, "status") !== "available") continue;
      const problem = shapeProblem(day, bookable, `flights.${id}.dates.${date}`);
      if (problem !== null) return problem;
    }
  }
  const broken = findBrokenMethod(base, (source) => source !== "credit_card", "amount");
  if (broken !== null) return broken;
  for (const [id, record] of base.table("reservations")) {
    const userId = textField(record, "user_id");
    if (!base.table("users").has(userId)) return `reservations.${id} belongs to user "${userId}", who does not exist`;
  }
  return null;
}
