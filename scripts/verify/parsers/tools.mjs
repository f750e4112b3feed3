// Tools that random texts call: schemas of many shapes, since several formats read a value by its
// declared schema.

/** @param {string} name @param {Record<string, unknown>} properties */
const tool = (name, properties) => ({
  type: "function",
  function: { name, description: name, parameters: { type: "object", properties } },
});

const string = { type: "string" };
const nullable = { anyOf: [{ type: "integer" }, { type: "null" }] };

/** Sets of tools by name; the first tool of each is called most often. */
export const toolsets = {
  weather: [
    tool("get_weather", { city: string, days: { type: "integer" }, units: { type: "string", enum: ["metric", "imperial"] } }),
    tool("search", { query: string, top_k: { type: "integer" }, filters: { type: "object" }, tags: { type: "array", items: string } }),
    tool("noop", {}),
  ],
  odd: [
    tool("my-tool", {
      text: { type: ["string", "null"] },
      count: nullable,
      ratio: { type: "number" },
      flag: { type: "boolean" },
      either: { oneOf: [{ type: "array", items: { type: "integer" } }, string] },
      mixed: { enum: ["7", 8, null] },
      all: { allOf: [{ type: "integer" }] },
      none: { type: "null" },
      open: {},
      from: { type: "integer" },
    }),
    tool("ns.lookup", {
      items: { type: "array", items: { type: "object", properties: { id: { type: "integer" }, label: string } } },
      nested: { type: "object", properties: { deep: { type: "object", additionalProperties: { type: "number" } } } },
      kind: { const: "exact" },
      pair: { type: "array", prefixItems: [{ type: "integer" }, string] },
      ref: { $ref: "#/$defs/id" },
    }),
    { type: "function", function: { name: "no_parameters", description: "" } },
    { type: "function", function: { name: "union", parameters: { anyOf: [{ properties: { kind: { const: "a" }, value: { type: "integer" } } }, { properties: { kind: { const: "b" }, value: string } }] } } },
  ],
  one: [tool("get_weather", { city: string, detail: { type: "object", properties: { hourly: { type: "boolean" } } } })],
}; // prettier-ignore
