// Decoding of SentencePiece-like vocabularies with byte tokens (`<0xE6>`), by the chain of decoders that such files name. The
// library's own loses a byte order mark. Where bytes are no UTF-8, each invalid part becomes U+FFFD, as everywhere here; Hugging
// Face gives up the whole run of bytes then, valid characters included, so that no decoder could put out text before a run ends.

import { decodeUtf8 } from "./utf8-decoder.ts";

export type ByteFallbackDecoder = (tokens: readonly string[]) => string;

type Chain = {
  readonly replacements: readonly (readonly [string, string])[];
  readonly strip: readonly [string, number];
};

/** `null` when the decoder in a tokenizer.json is another chain than Replace, ByteFallback, Fuse and perhaps Strip. */
export function readByteFallbackDecoder(decoder: unknown): ByteFallbackDecoder | null {
  const steps = listOf(decoder, "decoders");
  const names = steps.map((step) => fieldOf(step, "type"));
  if (!names.includes("ByteFallback") || !names.includes("Fuse")) return null;
  const replacements: [string, string][] = [];
  let strip: [string, number] = ["", 0];
  for (const [index, step] of steps.entries()) {
    const content = fieldOf(step, "content");
    switch (names[index]) {
      case "Replace": {
        const from = fieldOf(fieldOf(step, "pattern"), "String");
        if (typeof from !== "string" || typeof content !== "string" || index > names.indexOf("ByteFallback"))
          return null;
        replacements.push([from, content]);
        break;
      }
      case "ByteFallback":
      case "Fuse":
        break;
      case "Strip": {
        const start = fieldOf(step, "start");
        if (typeof content !== "string" || typeof start !== "number" || fieldOf(step, "stop") !== 0) return null;
        if (index < names.indexOf("Fuse")) return null;
        strip = [content, start];
        break;
      }
      default:
        return null;
    }
  }
  return (tokens) => decode(tokens, { replacements, strip });
}

function decode(tokens: readonly string[], { replacements, strip: [content, most] }: Chain): string {
  let text = "";
  let bytes: number[] = [];
  const flush = (): void => {
    if (bytes.length > 0) text += decodeUtf8(Uint8Array.from(bytes));
    bytes = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
    if (byte !== undefined) {
      bytes.push(Number.parseInt(byte, 16));
      continue;
    }
    flush();
    text += replacements.reduce((replaced, [from, to]) => replaced.replaceAll(from, () => to), token);
  }
  flush();
  if (content === "") return text;
  let start = 0;
  for (let times = 0; times < most && text.startsWith(content, start); times++) start += content.length;
  return text.slice(start);
}

function listOf(value: unknown, key: string): readonly unknown[] {
  const list = fieldOf(value, key);
  return Array.isArray(list) ? (list as unknown[]) : [];
}

function fieldOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}
