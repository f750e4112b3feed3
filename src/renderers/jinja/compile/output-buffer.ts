// Collects what a template writes, piece by piece with its origin.

import type { TemplateSegment } from "../../chat-template.ts";
import { checkTextLength } from "../limits.ts";
import { concatTexts, type Origin, runsOf, TracedText } from "../values/traced-text.ts";

type Piece = { readonly origin: Origin; text: string };

export class OutputBuffer {
  readonly #pieces: Piece[] = [];
  #length = 0;

  /** Throws "limit" when too much has been written. */
  write(text: TracedText, place: (origin: Origin) => Origin): void {
    checkTextLength((this.#length += text.text.length));
    let offset = 0;
    for (const run of runsOf(text)) {
      const origin = place(run.origin);
      const piece = text.text.slice(offset, (offset += run.length));
      const last = this.#pieces.at(-1);
      if (last !== undefined && last.origin === origin) last.text += piece;
      else this.#pieces.push({ origin, text: piece });
    }
  }

  toText(): TracedText {
    return concatTexts(this.#pieces.map(({ origin, text }) => new TracedText(text, origin)));
  }

  toSegments(): TemplateSegment[] {
    return this.#pieces.map(({ origin, text }) => ({ message: origin.message, source: origin.source, text }));
  }
}
