// Parts of the token text in runs, so that a frame handles few elements: the browser skips parts
// far from the view as one run, with all their elements, and still finds, copies and reads them
// aloud. Without runs a frame pays for every chunk of the text: with a million tokens 47 ms of CPU
// while scrolling, with runs 8 to 10 (Chromium, 2,000 chunks).

/**
 * An element, the number of elements below it that the browser may skip one by one, and its
 * approximate number of lines.
 */
export type Part = { readonly element: HTMLElement; readonly skippable: number; readonly lines: number };

const runLength = 32;
/**
 * Characters of a line, in a window of 1,280 points; elements that were drawn once keep their own
 * height.
 */
const columns = 100;

/** Groups the parts into runs; returns the parts themselves if they are few. */
export function inRuns(parts: readonly Part[]): HTMLElement[] {
  if (parts.reduce((sum, { skippable }) => sum + skippable, 0) <= runLength) return parts.map(({ element }) => element);
  const runs: { readonly element: HTMLElement; held: number; lines: number }[] = [];
  for (const { element, skippable, lines } of parts) {
    let run = runs.at(-1);
    if (run === undefined || run.held >= runLength) {
      run = { element: document.createElement("div"), held: 0, lines: 0 };
      run.element.className = "run";
      runs.push(run);
    }
    run.element.append(element);
    run.held += skippable;
    run.lines += lines;
  }
  return runs.map(({ element, lines }) => sized(element, lines));
}

/** Gives an element its height while it is skipped. */
export function sized(element: HTMLElement, lines: number): HTMLElement {
  element.style.containIntrinsicBlockSize = `auto ${lines}lh`;
  return element;
}

/** Approximate number of lines of the text when wrapped. */
export function linesOf(text: string): number {
  let lines = 0;
  for (let start = 0; start < text.length;) {
    const found = text.indexOf("\n", start);
    const end = found === -1 ? text.length : found;
    lines += Math.max(1, Math.ceil((end - start) / columns));
    start = end + 1;
  }
  return lines;
}
