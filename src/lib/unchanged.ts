/** What takes secrets out of texts where there are none: whoever can do without a text then never makes one. */
export function unchanged(text: string): string {
  return text;
}
