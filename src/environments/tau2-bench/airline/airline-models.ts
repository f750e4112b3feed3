// The data models of the airline, in the order in which their fields are shown.

import type { DatabaseSpec } from "../database.ts";
import {
  defineModel,
  dictOf,
  type FieldType,
  float,
  integer,
  listOf,
  oneOf,
  optional,
  text,
  unionOf,
} from "../schema.ts";

const cabins = ["business", "economy", "basic_economy"] as const;
const cabin = oneOf(...cabins);

/** An amount for each cabin. */
const byCabin: FieldType = (value, place) => {
  const record = dictOf(integer)(value, place);
  if (record instanceof Map) for (const key of record.keys()) cabin(key, place);
  return record;
};

const flightDate = unionOf(
  defineModel("FlightDateStatusAvailable", { status: oneOf("available"), available_seats: byCabin, prices: byCabin })
    .read,
  defineModel("FlightDateStatusLanded", {
    status: oneOf("landed"),
    actual_departure_time_est: text,
    actual_arrival_time_est: text,
  }).read,
  defineModel("FlightDateStatusCancelled", { status: oneOf("cancelled") }).read,
  defineModel("FlightDateStatusDelayed", {
    status: oneOf("delayed"),
    estimated_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
  defineModel("FlightDataStatusFlying", {
    status: oneOf("flying"),
    actual_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
  defineModel("FlightDataStatusOnTime", {
    status: oneOf("on time"),
    estimated_departure_time_est: text,
    estimated_arrival_time_est: text,
  }).read,
);

const flightBase = { flight_number: text, origin: text, destination: text } as const;

const flight = defineModel("Flight", {
  ...flightBase,
  scheduled_departure_time_est: text,
  scheduled_arrival_time_est: text,
  dates: dictOf(flightDate),
});

/** What a search finds. */
export const directFlight = defineModel("DirectFlight", {
  ...flightBase,
  status: oneOf("available"),
  scheduled_departure_time_est: text,
  scheduled_arrival_time_est: text,
  date: optional(text),
  available_seats: byCabin,
  prices: byCabin,
});

export const reservationFlight = defineModel("ReservationFlight", { ...flightBase, date: text, price: integer });

export const flightInfo = defineModel("FlightInfo", { flight_number: text, date: text });

export const passenger = defineModel("Passenger", { first_name: text, last_name: text, dob: text });

export const payment = defineModel("Payment", { payment_id: text, amount: integer });

export const certificate = defineModel("Certificate", { source: oneOf("certificate"), id: text, amount: float });

const user = defineModel("User", {
  user_id: text,
  name: defineModel("Name", { first_name: text, last_name: text }).read,
  address: defineModel("Address", {
    address1: text,
    address2: optional(text),
    city: text,
    country: text,
    state: text,
    zip: text,
  }).read,
  email: text,
  dob: text,
  payment_methods: dictOf(
    unionOf(
      defineModel("CreditCard", { source: oneOf("credit_card"), id: text, brand: text, last_four: text }).read,
      defineModel("GiftCard", { source: oneOf("gift_card"), id: text, amount: float }).read,
      certificate.read,
    ),
  ),
  saved_passengers: listOf(passenger.read),
  membership: oneOf("gold", "silver", "regular"),
  reservations: listOf(text),
});

export const reservation = defineModel("Reservation", {
  reservation_id: text,
  user_id: text,
  origin: text,
  destination: text,
  flight_type: oneOf("round_trip", "one_way"),
  cabin,
  flights: listOf(reservationFlight.read),
  passengers: listOf(passenger.read),
  payment_history: listOf(payment.read),
  created_at: text,
  total_baggages: integer,
  nonfree_baggages: integer,
  insurance: oneOf("yes", "no"),
  status: optional(oneOf("cancelled")),
});

export const airlineDatabase: DatabaseSpec = {
  name: "FlightDB",
  tables: {
    flights: { kind: "dict", model: flight },
    users: { kind: "dict", model: user },
    reservations: { kind: "dict", model: reservation },
  },
};
