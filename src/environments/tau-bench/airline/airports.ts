// The airports this domain knows. A fixed text of the reference, not of its tables.

import { dumpJson } from "../../../python-semantics/json/index.ts";
import { defineTool } from "../tool.ts";

const cities: readonly (readonly [code: string, city: string])[] = [
  ["SFO", "San Francisco"],
  ["JFK", "New York"],
  ["LAX", "Los Angeles"],
  ["ORD", "Chicago"],
  ["DFW", "Dallas"],
  ["DEN", "Denver"],
  ["SEA", "Seattle"],
  ["ATL", "Atlanta"],
  ["MIA", "Miami"],
  ["BOS", "Boston"],
  ["PHX", "Phoenix"],
  ["IAH", "Houston"],
  ["LAS", "Las Vegas"],
  ["MCO", "Orlando"],
  ["EWR", "Newark"],
  ["CLT", "Charlotte"],
  ["MSP", "Minneapolis"],
  ["DTW", "Detroit"],
  ["PHL", "Philadelphia"],
  ["LGA", "LaGuardia"],
];

const text = dumpJson(new Map(cities));

export const listAllAirports = defineTool({ name: "list_all_airports", parameters: [], run: () => text });
