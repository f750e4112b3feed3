// Tool calls of MiniCPM 5: XML, or text that looks like it. Text that is not XML is read by
// patterns. A call that lacks a required parameter, or has an undeclared one, stays in the text.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { evaluateLiteral } from "../../python-semantics/literals.ts";
import { pythonStrip, type PythonValue, space, unlessRaised, wordCharacters } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, declaredSchema, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { readJson } from "../typed-text.ts";
import { readXml } from "../xml-elements.ts";

const opening = "<function";
const closing = "</function>";
const parameterOpening = "<param";
const parameterClosing = "</param>";

export const minicpm5 = createToolCallParser({
  name: "minicpm5",
  markers: [opening, closing, parameterOpening, parameterClosing],
  hints: { nesting: { [opening]: closing, [parameterOpening]: parameterClosing } },
  opening,
  isAllOrNothing: true,
  detect: (text, scan) => {
    let outside = "";
    let rest = 0;
    for (const { start, end } of scan.blocks(text, opening, closing)) {
      const block = text.slice(start, end);
      const call = new BlockReader(block, scan).read();
      outside += text.slice(rest, call === null ? end : start);
      rest = end;
      if (call !== null) scan.add(scan.named(call.name, call.values, block));
    }
    return outside + text.slice(rest);
  },
});

type Call = { readonly name: string; readonly values: ReadonlyMap<string, PythonValue> };

class BlockReader {
  readonly #block: string;
  readonly #scan: ToolCallScan;
  #name = "";
  /** Values of the parameters; those that the first reading found are kept for the second. */
  readonly #values = new Map<string, PythonValue>();

  constructor(block: string, scan: ToolCallScan) {
    this.#block = block;
    this.#scan = scan;
  }

  read(): Call | null {
    const block = this.#block;
    // `false`: a parameter is invalid; `undefined`: reading failed.
    let areValid = unlessRaised(null, () => this.#readXml());
    if (areValid === undefined || this.#name === "") {
      areValid = unlessRaised(null, () => this.#readPatterns()) ?? areValid;
    }
    const isKnown = this.#scan.isCallable(this.#name, block) && this.#scan.hasTool(this.#name);
    if (!isKnown) return null;
    const missing = requiredNames(this.#parameters).filter((key) => !this.#values.has(key));
    if (areValid !== false && missing.length === 0) return { name: this.#name, values: this.#values };
    const detail =
      areValid === false
        ? "The call has a parameter without a name, one that is given twice, or one that the tool does not have."
        : `The call lacks ${missing.join(", ")}.`;
    this.#scan.report("not-an-object", block, detail, this.#name);
    return null;
  }

  get #parameters(): JsonValue | undefined {
    return declaredParameters(this.#scan.tool(this.#name));
  }

  #readXml(): boolean | undefined {
    const root = readXml(this.#block);
    if (root?.namespace !== "") return undefined;
    this.#name = pythonStrip(root.attributes.get("name") ?? "");
    const isHere = (name: string) => (element: typeof root) => element.name === name && element.namespace === "";
    const own = root.children.filter(isHere("param"));
    const inside = root.children.find(isHere("arguments"))?.children.filter(isHere("param")) ?? [];
    const parameters = own.length > 0 ? own : inside;
    return this.#take(parameters.map(({ attributes, text }) => [attributes.get("name") ?? "", text]));
  }

  #readPatterns(): boolean {
    const found = functionName.exec(this.#block);
    if (found !== null) this.#name = pythonStrip(found[1]!);
    const isNamed = !hasNamelessParameter(this.#block);
    const areValid = this.#take(writtenParameters(this.#block), isNamed);
    return isNamed && areValid;
  }

  /** Adds parameters until one is invalid, which discards all of them. */
  #take(parameters: Iterable<readonly [key: string, text: string]>, isNamed = true): boolean {
    const tool = this.#name === "" ? undefined : this.#scan.tool(this.#name);
    const declared = schemaProperties(declaredParameters(tool));
    const seen = new Set<string>();
    let areValid = isNamed;
    for (const [key, text] of parameters) {
      if ((key === "" && isNamed) || seen.has(key) || (declared.size > 0 && !declared.has(key))) {
        areValid = false;
        break;
      }
      seen.add(key);
      const value = pythonStrip(text);
      const type = tool === undefined ? undefined : declaredSchema(declaredParameters(tool), key)?.get("type");
      this.#values.set(key, type === "string" ? value : readValue(value));
    }
    if (!areValid) this.#values.clear();
    return areValid;
  }
}

/** JSON, else a Python literal, else the text. */
function readValue(text: string): PythonValue {
  const read = (): PythonValue => {
    const value = readJson(text);
    return value === undefined ? evaluateLiteral(text) : value;
  };
  const value = unlessRaised(
    ["ValueError", "SyntaxError", "IndentationError", "TypeError", "UnicodeEncodeError"],
    read,
  );
  return value === undefined ? text : value;
}

function requiredNames(parameters: JsonValue | undefined): readonly string[] {
  const required = parameters instanceof Map ? (parameters.get("required") ?? []) : [];
  if (typeof required === "string") return Array.from(required);
  if (required instanceof Map) return [...required.keys()];
  if (!Array.isArray(required) || required.some((key) => Array.isArray(key) || key instanceof Map)) return [];
  return required.map((key) => (typeof key === "string" ? key : JSON.stringify(key)));
}

/** A block ends with its closing tag, so some tag end follows. */
const functionName = new RegExp(`<function${space}+name=['"]([^'"]+)['"]`, "u");
const parameterName = new RegExp(`<param${space}+name=['"]([^'"]+)['"]>`, "gu");

/** Parameters that a pattern finds, with CDATA marks removed. */
function* writtenParameters(block: string): Generator<readonly [key: string, text: string]> {
  for (let from = 0; ;) {
    parameterName.lastIndex = from;
    const found = parameterName.exec(block);
    if (found === null) return;
    const start = parameterName.lastIndex;
    const end = block.indexOf(parameterClosing, start);
    if (end === -1) return;
    const text = block.slice(start, end);
    const isQuoted = text.startsWith("<![CDATA[") && text.endsWith("]]>");
    yield [pythonStrip(found[1]!), isQuoted ? text.slice("<![CDATA[".length, -"]]>".length) : text];
    from = end + parameterClosing.length;
  }
}

const nameSign = new RegExp(`(?<![${wordCharacters}])name=`, "gu");

/** True if a tag that begins as a parameter has no name before its end. */
function hasNamelessParameter(block: string): boolean {
  const names = Array.from(block.matchAll(nameSign), ({ index }) => index);
  let next = 0;
  let end = -1;
  for (let at = block.indexOf(parameterOpening); at !== -1; at = block.indexOf(parameterOpening, at + 1)) {
    const inside = at + parameterOpening.length;
    if (end < inside) end = block.indexOf(">", inside);
    if (end === -1) return false;
    while (next < names.length && names[next]! < inside) next++;
    if (next === names.length || names[next]! > end) return true;
  }
  return false;
}
