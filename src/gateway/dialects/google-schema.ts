// Google's form of schemas, a part of OpenAPI 3.0, as JSON Schema: the names of types are in lower
// case, "nullable" is a type, lengths are numbers, and properties follow their stated order.

import { camelNames, isFields } from "./google-names.ts";

/** The schema in JSON Schema; any value that is not an object is unchanged. Its depth is that of a body. */
export function jsonSchemaOf(schema: unknown): unknown {
  const given = camelNames(schema);
  if (!isFields(given)) return schema;
  const isNullable = given["nullable"] === true;
  const entries = Object.entries(given).flatMap(([name, value]): (readonly [string, unknown])[] => {
    switch (name) {
      case "nullable":
      case "propertyOrdering":
      case "example":
        return [];
      case "type": {
        const types = [value].flat().flatMap((one) => typeName(one) ?? []);
        if (types.length === 0) return [];
        return [[name, isNullable ? [...types, "null"] : types.length === 1 ? types[0] : types]];
      }
      case "format":
        // Types of Google's own, which no grammar knows.
        return value === "enum" ? [] : [[name, value]];
      case "enum":
        return [[name, isNullable && Array.isArray(value) ? [...(value as unknown[]), null] : value]];
      case "items":
      case "additionalProperties":
        return [[name, jsonSchemaOf(value)]];
      case "anyOf":
      case "prefixItems": {
        const all = Array.isArray(value) ? value.map(jsonSchemaOf) : value;
        const addsNull = name === "anyOf" && isNullable && Array.isArray(all);
        return [[name, addsNull ? [...(all as unknown[]), { type: "null" }] : all]];
      }
      case "properties":
        return [[name, propertiesOf(value, given["propertyOrdering"])]];
      case "minItems":
      case "maxItems":
      case "minLength":
      case "maxLength":
      case "minProperties":
      case "maxProperties":
        // The JSON form of 64-bit integers is text.
        return [[name, typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value]];
      default:
        return [[name, value]];
    }
  });
  return Object.fromEntries(entries);
}

/** `null` for a type that states none. */
function typeName(type: unknown): string | null {
  if (typeof type !== "string" || type === "TYPE_UNSPECIFIED") return null;
  return type.toLowerCase();
}

function propertiesOf(properties: unknown, ordering: unknown): unknown {
  if (!isFields(properties)) return properties;
  const stated = Array.isArray(ordering) ? ordering.filter((name): name is string => typeof name === "string") : [];
  const first = [...new Set(stated)].filter((name) => Object.hasOwn(properties, name));
  const before = new Set(first);
  const names = [...first, ...Object.keys(properties).filter((name) => !before.has(name))];
  return Object.fromEntries(names.map((name) => [name, jsonSchemaOf(properties[name])]));
}
