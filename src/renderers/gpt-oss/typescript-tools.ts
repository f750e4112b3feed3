// Tools as gpt-oss is shown them: a TypeScript-like namespace. Odd white space is the template's own.

import {
  attribute,
  contains,
  isTruthy,
  itemsMethod,
  iterate,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";

export function toolNamespace(tools: TemplateValue): string {
  const types = iterate(tools).map((tool) => toolType(attribute(tool, "function")));
  return `## functions\n\nnamespace functions {\n\n${types.join("")}} // namespace functions`;
}

function toolType(tool: TemplateValue): string {
  const head = `// ${textOperand(attribute(tool, "description"))}\ntype ${textOperand(attribute(tool, "name"))} = `;
  const parameters = attribute(tool, "parameters");
  const properties = isTruthy(parameters) ? attribute(parameters, "properties") : undefined;
  if (!isTruthy(properties)) return `${head}() => any;\n\n`;
  const required = attribute(parameters, "required");
  const fields = itemsMethod(properties).map(([name, spec]) => {
    const description = attribute(spec, "description");
    const about = isTruthy(description) ? `// ${textOperand(description)}\n` : "";
    return `${about}${name}${optionalMark(name, required)}: ${typescriptType(spec)}${defaultText(spec)},\n`;
  });
  return `${head}(_: {\n${fields.join("")}}) => any;\n\n`;
}

function optionalMark(name: string, required: TemplateValue): "" | "?" {
  return isTruthy(required) && contains(required, name) ? "" : "?";
}

function defaultText(spec: TemplateValue): string {
  const value = attribute(spec, "default");
  if (value === undefined) return "";
  if (isTruthy(attribute(spec, "enum"))) return `, // default: ${textOperand(value)}`;
  if (isTruthy(attribute(spec, "oneOf"))) return `// default: ${textOperand(value)}`;
  return `, // default: ${toJson(value)}`;
}

function typescriptType(spec: TemplateValue): string {
  const type = attribute(spec, "type");
  const nullable = isTruthy(attribute(spec, "nullable")) ? " | null" : "";
  if (type === "array") return arrayType(attribute(spec, "items")) + nullable;
  if (Array.isArray(type) && type.length > 0) return type.map(printed).join(" | ");
  const variants = attribute(spec, "oneOf");
  if (isTruthy(variants)) return iterate(variants).map(variantType).join(" | \n");
  switch (type) {
    case "string": {
      const choices = attribute(spec, "enum");
      return isTruthy(choices) ? `"${iterate(choices).map(printed).join('" | "')}"` : `string${nullable}`;
    }
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    case "object":
      return objectType(spec);
    default:
      return "any";
  }
}

function arrayType(items: TemplateValue): string {
  if (!isTruthy(items)) return "any[]";
  const type = attribute(items, "type");
  if (type === "string" || type === "boolean") return `${type}[]`;
  if (type === "number" || type === "integer") return "number[]";
  const inner = typescriptType(items);
  return inner === "object | object" || Array.from(inner).length > 50 ? "any[]" : `${inner}[]`;
}

function variantType(variant: TemplateValue): string {
  const description = attribute(variant, "description");
  const about = isTruthy(description) ? `// ${textOperand(description)}` : "";
  const value = attribute(variant, "default");
  const preset = value === undefined ? "" : `${" ".repeat(20)}// default: ${toJson(value)}`;
  return typescriptType(variant) + about + preset;
}

function objectType(spec: TemplateValue): string {
  const properties = attribute(spec, "properties");
  if (!isTruthy(properties)) return "object";
  const required = attribute(spec, "required");
  const fields = itemsMethod(properties).map(
    ([name, property]) => `${name}${optionalMark(name, required)}: \n${" ".repeat(16)}${typescriptType(property)}`,
  );
  return `{\n${fields.join(", ")}}`;
}
