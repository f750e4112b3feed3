/**
 * Names a chat template by its text: two FNV-1a hashes of the UTF-16 units in hexadecimal, line ends and surrounding white
 * space aside. Tells published templates apart; not a defence against forgery.
 */
export function templateFingerprint(template: string): string {
  const text = template.replaceAll("\r\n", "\n").trim();
  let low = 0x811c9dc5;
  let high = 0x9747b28c;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ (unit + 0x5bd1), 0x01000193);
  }
  return [high, low].map((hash) => (hash >>> 0).toString(16).padStart(8, "0")).join("");
}
