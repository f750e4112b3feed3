// The descriptions of tools that models are not shown at first, as they are printed when a tool is
// unlocked or given away. They are upstream's docstrings, read from the user's folder.

import { pythonStrip } from "../../../python-semantics/index.ts";
import type { Method } from "../toolkit.ts";

/** The parts of a description that the tools print. */
export type ToolDoc = { readonly description: string; readonly text: string };

/** The docstrings of one side's tools. */
export class ToolDocs {
  readonly #docstrings: ReadonlyMap<string, string>;

  /** `docstrings`: by tool name, without common margins. */
  constructor(docstrings: ReadonlyMap<string, string>) {
    this.#docstrings = docstrings;
  }

  /** The description of a tool; made of its signature if the folder has no docstrings. */
  of({ name, parameters }: Method): ToolDoc {
    const docstring = this.#docstrings.get(name);
    if (docstring !== undefined) return readDoc(name, docstring);
    const described = parameters.map((parameter) =>
      typeof parameter === "string"
        ? { name: parameter, type: "string", isRequired: true, text: "" }
        : { name: parameter[0], type: "string", isRequired: false, text: "" },
    );
    return docOf(name, name, described);
  }
}

type Described = {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly text: string;
};

/** Reads a docstring as the reference's wrapper does; sections that it does not know are text. */
function readDoc(name: string, docstring: string): ToolDoc {
  const args = /\n\s*Args:\s*\n/.exec(docstring);
  const description = pythonStrip(args === null ? docstring : docstring.slice(0, args.index));
  if (args === null) return docOf(name, description, []);
  const rest = docstring.slice(args.index + args[0].length);
  const section = rest.slice(0, /\n\s*Returns:\s*\n/.exec(rest)?.index ?? rest.length);
  const parameters = new Map<string, Described>();
  for (const [, parameter = "", type = "string", text = ""] of section.matchAll(parameterPattern)) {
    parameters.set(parameter, {
      name: parameter,
      type: pythonStrip(type.replace(/,?\s*optional/gi, "")) || "string",
      isRequired: !type.toLowerCase().includes("optional"),
      text: pythonStrip(text),
    });
  }
  return docOf(name, description, [...parameters.values()]);
}

/** `name (type): description` or `name: description`. */
const parameterPattern = /^\s*([\p{L}\p{N}_]+)\s*(?:\(([^)]+)\))?\s*:\s*(.+?)$/gmu;

function docOf(name: string, description: string, parameters: readonly Described[]): ToolDoc {
  const lines = parameters.map(
    ({ name: parameter, type, isRequired, text }) =>
      `  - ${parameter}: ${type} (${isRequired ? "required" : "optional"}) - ${text}`,
  );
  const shown = lines.length === 0 ? "  (no parameters)" : lines.join("\n");
  return { description, text: `Tool: ${name}\nDescription: ${description}\nParameters:\n${shown}` };
}
