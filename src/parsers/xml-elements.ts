// Reads one XML element as strictly as expat, with which a server reads calls: no document type, no
// prefixes of names.

/** An element of a text. */
export type XmlElement = {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  /** The text before its first child, comments aside. */
  text: string;
  readonly children: XmlElement[];
  /** The default namespace that it declares or inherits; "" for none. */
  readonly namespace: string;
};

/** Characters that are not allowed in XML, unpaired surrogates included. */
// oxlint-disable-next-line no-control-regex
const noCharacter = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]/u;
const blanks = /[ \t\r\n]*/y;
const tagName = /[\p{L}_][\p{L}\p{M}\p{Nd}._·-]*/uy;
const closing = /[ \t\r\n]*(\/?)>/y;
const equals = /[ \t\r\n]*=[ \t\r\n]*(["'])/y;
const entity = /&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(lt|gt|amp|quot|apos));/y;
const entities = new Map([["lt", "<"], ["gt", ">"], ["amp", "&"], ["quot", '"'], ["apos", "'"]]); // prettier-ignore
const instruction = /<\?(?![xX][mM][lL](?:[ \t\r\n]|\?>))[\p{L}_][\p{L}\p{M}\p{Nd}._·-]*(?=[ \t\r\n]|\?>)/uy;

/**
 * Reads a text that is one element, from its first character to its last; `null` for any other
 * text.
 */
export function readXml(text: string): XmlElement | null {
  return noCharacter.test(text) ? null : new XmlReader(text).read();
}

/** Methods return `null` if the text is not XML. */
class XmlReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): XmlElement | null {
    const text = this.#text;
    const open: XmlElement[] = [];
    let root: XmlElement | null = null;
    while (root === null || open.length > 0) {
      const top = open.at(-1);
      if (text.startsWith("</", this.#at)) {
        this.#at += 2;
        if (top === undefined || this.#match(tagName)?.[0] !== top.name || this.#match(closing)?.[1] !== "")
          return null;
        open.pop();
      } else if (text.startsWith("<![CDATA[", this.#at)) {
        if (!this.#section("<![CDATA[", "]]>", top)) return null;
      } else if (text.startsWith("<!--", this.#at)) {
        if (!this.#comment()) return null;
      } else if (text.startsWith("<?", this.#at)) {
        if (this.#match(instruction) === null || !this.#section("", "?>")) return null;
      } else if (text[this.#at] === "<") {
        const started = this.#startTag(top?.namespace ?? "");
        if (started === null) return null;
        top?.children.push(started.element);
        root ??= started.element;
        if (!started.isClosed) open.push(started.element);
      } else if (top === undefined || !this.#characters(top)) return null;
    }
    return this.#at === text.length ? root : null;
  }

  #startTag(inherited: string): { readonly element: XmlElement; readonly isClosed: boolean } | null {
    this.#at++;
    const name = this.#match(tagName)?.[0];
    if (name === undefined) return null;
    const attributes = new Map<string, string>();
    for (;;) {
      const end = this.#match(closing);
      if (end !== null) {
        const namespace = attributes.get("xmlns") ?? inherited;
        attributes.delete("xmlns");
        return { element: { name, attributes, text: "", children: [], namespace }, isClosed: end[1] === "/" };
      }
      const isSpaced = this.#match(blanks)?.[0] !== "";
      const key = isSpaced ? this.#match(tagName)?.[0] : undefined;
      const quote = key === undefined ? undefined : this.#match(equals)?.[1];
      const stop = quote === undefined ? -1 : this.#text.indexOf(quote, this.#at);
      if (key === undefined || stop === -1 || attributes.has(key)) return null;
      const value = this.#text.slice(this.#at, stop);
      const read = value.includes("<") ? null : withEntities(value.replace(/\r\n|[\t\r\n]/g, " "));
      if (read === null) return null;
      attributes.set(key, read);
      this.#at = stop + 1;
    }
  }

  #characters(element: XmlElement): boolean {
    const end = this.#text.indexOf("<", this.#at);
    if (end === -1) return false;
    const raw = this.#text.slice(this.#at, end);
    const read = raw.includes("]]>") ? null : withEntities(unixLines(raw));
    if (read === null) return false;
    if (element.children.length === 0) element.text += read;
    this.#at = end;
    return true;
  }

  /** Takes the text up to `end`, which belongs to `element`. */
  #section(start: string, end: string, element?: XmlElement): boolean {
    const from = this.#at + start.length;
    const to = this.#text.indexOf(end, from);
    if (to === -1 || (start !== "" && element === undefined)) return false;
    if (element?.children.length === 0) element.text += unixLines(this.#text.slice(from, to));
    this.#at = to + end.length;
    return true;
  }

  #comment(): boolean {
    const end = this.#text.indexOf("--", this.#at + 4);
    this.#at = end + 3;
    return end !== -1 && this.#text[end + 2] === ">";
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    this.#at += found?.[0].length ?? 0;
    return found;
  }
}

const unixLines = (text: string): string => text.replace(/\r\n?/g, "\n");

/**
 * The text with its references replaced; `null` if a reference is unknown or does not stand for a
 * character.
 */
function withEntities(text: string): string | null {
  const pieces: string[] = [];
  let rest = 0;
  for (let at = text.indexOf("&"); at !== -1; at = text.indexOf("&", rest)) {
    entity.lastIndex = at;
    const [all = "", hexadecimal, decimal, named = ""] = entity.exec(text) ?? [];
    const code = hexadecimal !== undefined ? parseInt(hexadecimal, 16) : Number(decimal);
    const character = entities.get(named) ?? (code <= 0x10ffff ? String.fromCodePoint(code) : "\0");
    if (all === "" || noCharacter.test(character)) return null;
    pieces.push(text.slice(rest, at), character);
    rest = at + all.length;
  }
  return pieces.join("") + text.slice(rest);
}
