// Random texts for one parser: valid calls of its format, truncated, nested, doubled, swapped,
// mixed with other formats, with broken JSON, with unicode, and inside reasoning. Everything is
// derived from the seed.

/**
 * Pieces that break formats: JSON, Python, markup, numbers at the limits, characters that languages
 * count differently.
 */
const noise = [
  ..."\n| |\t|\"|'|\\|{|}|[|]|(|)|<|>|,|:|=|/|;|-|+|*|&|&lt;|&#0;|#|`|\r\n|\n\n".split("|"),
  ..."null|None|true|True|NaN|Infinity|1.50|1e5|-0|0x1F|1_0|[]|{}|\"\"|''|[1, 2]|{\"a\": 1}|'x'|b''|\"a\\nb\"".split("|"),
  ..."\u0085|\u2028|é|東京|٣|\u{1f600}|\ufeff|\u00a0|ß|\u001f".split("|"),
  ..."<think>|</think>|<tool_call>|</tool_call>|<|im_end|>|commentary|analysis|assistantfinal|functions.".split("|"),
  "|", "<|", "|>", "9".repeat(30), "1e400", "\\u00", "\\ud800", "```json\n", "```",
]; // prettier-ignore

const values = [
  '"Rome"', '" Rome "', '"null"', "null", "true", "false", "1", "1.0", "1.50", "-3", "1e2", "[]", "{}", '["a", "b"]', '{"a": {"b": [1]}}',
  '"a\\nb"', '"a\\"b"', "'x'", "None", "True", '"東京"', '"\u{1f600}"', "12345678901234567890", '"7"', "8", '"<b>&amp;</b>"', "",
]; // prettier-ignore

const words = ["", "", "", "Well. ", "One moment.\n", "\n\n", " ", "Let me see.\n\n", "a < b ", "東京 "];

/** A small random number generator with a seed (mulberry32). @param {number} seed */
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const integer = (/** @type {number} */ end) => Math.floor(next() * end);
  return {
    integer,
    /** @template T @param {readonly T[]} items @returns {T} */
    pick: (items) => /** @type {T} */ (items[integer(items.length)]),
  };
}

/** @typedef {ReturnType<typeof randomOf>} Random */

/**
 * Splits a text: markup stays whole; words, blanks and punctuation are pieces of their own.
 *
 * @param {string} text
 */
const pieces = (text) => text.match(/<[^<>\s]{1,40}>|\[\/?[A-Z_]{2,20}\]?|\w+|\s+|[^\w\s]/gu) ?? [];

/**
 * One text.
 *
 * @param {readonly string[]} good Texts of the format; must not be empty.
 * @param {readonly string[]} foreign Texts of any format.
 * @param {Random} random
 */
export function randomText(good, foreign, random) {
  let text = random.pick(good);
  // Several calls, with words between them.
  while (random.integer(4) === 0) text += random.pick(words) + random.pick(good);
  if (random.integer(3) === 0) text = random.pick(words) + text + random.pick(words);
  for (let count = random.pick([0, 1, 1, 2, 3, 5]); count > 0; count--) text = mutated(text, good, foreign, random);
  if (random.integer(8) === 0) text = `<think>${random.pick(words)}${text}`;
  if (random.integer(10) === 0) text = `${text}</think>${random.pick(good)}`;
  // Lone surrogates cannot pass through a pipe in UTF-8.
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

/**
 * @param {string} text
 * @param {readonly string[]} good
 * @param {readonly string[]} foreign
 * @param {Random} random
 */
function mutated(text, good, foreign, random) {
  const parts = [...pieces(text)];
  const at = random.integer(parts.length + 1);
  const other = random.integer(parts.length + 1);
  switch (random.integer(12)) {
    case 0:
      parts.splice(at, 1 + random.integer(4));
      break;
    case 1:
      parts.splice(at, 0, ...parts.slice(at, at + 1 + random.integer(8)));
      break;
    case 2:
      parts.splice(at, 0, random.pick(noise));
      break;
    case 3:
      parts.splice(at, 1, random.pick(noise));
      break;
    case 4:
      parts.splice(
        at,
        0,
        random.pick(pieces(random.pick(foreign)).length > 0 ? pieces(random.pick(foreign)) : noise) ?? "",
      );
      break;
    case 5:
      parts.splice(at, 0, parts[other] ?? "");
      break;
    case 6:
      // Nesting.
      parts.splice(at, 0, random.pick(good));
      break;
    case 7:
      parts.length = Math.min(parts.length, at);
      break;
    case 8: {
      const piece = parts[at] ?? "";
      const cut = random.integer(piece.length + 1);
      parts.splice(at, 1, piece.slice(0, cut), random.pick(noise), piece.slice(cut));
      break;
    }
    case 9:
      return text.replace(/"(?:Rome|[a-z]+)"(?=\s*[,}\])])|\bRome\b|\b\d+\b/u, () => random.pick(values));
    case 10: {
      const blank = /\s+/gu;
      return random.integer(2) === 0
        ? text.replace(blank, () => (random.integer(4) === 0 ? random.pick(["", " ", "\n", "\n\n", "\t"]) : " "))
        : text.trim();
    }
    default:
      return text.slice(
        random.integer(4) === 0 ? random.integer(text.length + 1) : 0,
        text.length - (random.integer(3) === 0 ? random.integer(text.length + 1) : 0),
      );
  }
  return parts.join("");
}

/**
 * Splits a text into pieces of one to a few characters, never inside one.
 *
 * @param {string} text @param {Random} random
 */
export function randomPieces(text, random) {
  const characters = Array.from(text);
  const longest = random.pick([1, 3, 12, 60]);
  const cut = [];
  for (let at = 0; at < characters.length;) {
    const length = 1 + random.integer(longest);
    cut.push(characters.slice(at, at + length).join(""));
    at += length;
  }
  return cut;
}
