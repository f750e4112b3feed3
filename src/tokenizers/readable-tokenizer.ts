// A tokenizer without a file, for tests, docs and the embedded demo: common words, JSON and the
// ChatML markers are one token each, everything else one token per byte, so that a dump of tokens
// reads like text. Real byte-level code underneath, no learned merges: the text shows its tokens.
// Not a vocabulary to train a model on.

import type { Tokenizer } from "../core/index.ts";
import type { AddedToken } from "./added-tokens.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { ByteTable, MergeTable } from "./byte-table.ts";

const specialTexts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const markerTexts = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"];
const contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
const byteCount = 256;

/**
 * Makes the readable tokenizer. Ids below 256 are bytes, then come `<|endoftext|>`, `<|im_start|>`, `<|im_end|>` (special)
 * and the tool and think markers (not special), then words and punctuation. The same in every process;
 * `decode(encode(text))` is `text` for every well-formed text.
 *
 * @example
 * const tokenizer = createReadableTokenizer();
 * const ids = tokenizer.encode('{"name": "find_order"}');
 * const pieces = Array.from(ids, (id) => tokenizer.decode([id]));
 */
export function createReadableTokenizer(): Tokenizer {
  const addedTokens = [...specialTexts, ...markerTexts].map((content, index) => ({
    ...plainToken,
    id: byteCount + index,
    content,
    special: index < specialTexts.length,
  }));
  const texts = [...addedTokens.map((token) => token.content), ...ordinaryTexts()];
  const tokens = new ByteTable(byteCount + texts.length);
  for (let byte = 0; byte < byteCount; byte++) tokens.add(byte, Uint8Array.of(byte), 0, 1);
  const encoder = new TextEncoder();
  texts.forEach((text, index) => {
    const bytes = encoder.encode(text);
    tokens.add(byteCount + index, bytes, 0, bytes.length);
  });
  return new ByteLevelBpe("readable", {
    tokens,
    merges: new MergeTable(0),
    ignoreMerges: true,
    normalForms: [],
    steps: [{ pattern: piecePattern(), keep: "both" }],
    addedTokens,
  });
}

const plainToken: AddedToken = {
  id: 0,
  content: "",
  singleWord: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: false,
};

/** Every text that is one token, in the order of ids. */
function ordinaryTexts(): Set<string> {
  const texts = new Set<string>();
  for (const word of readableVocabulary) {
    const capitalized = word.charAt(0).toUpperCase() + word.slice(1);
    for (const form of [word, ` ${word}`, capitalized, ` ${capitalized}`, `_${word}`]) {
      if (form.length > 1) texts.add(form);
    }
  }
  for (const piece of readablePunctuation) texts.add(piece);
  for (const piece of contractions) texts.add(piece);
  return texts;
}

/** Punctuation first, the longest that fits; then words with the space or underscore before them; then single characters. */
function piecePattern(): RegExp {
  const punctuation = [...readablePunctuation]
    .sort((a, b) => b.length - a.length)
    .map((piece) => piece.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const contraction = `(?:${contractions.join("|")})(?!\\p{L})`;
  return new RegExp(`${punctuation.join("|")}|${contraction}|[ _]?\\p{L}+|\\s+(?!\\S)|[^]`, "uy");
}

/** Lower-case words; each also gets a capitalized form, both of them with a leading space, and a form with a leading underscore. */
export const readableVocabulary: readonly string[] = `
the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not
what all were we when your can said there use an each which she do how their if will up other about out many then them
these so some her would make like him into time has look two more write go see number no way could people my than
first water been call who oil its now find long down day did get come made may part over new sound take only little
work know place year live me back give most very after thing our just name good sentence man think say great where
help through much before line right too mean old any same tell follow came want show also around form three small set
put end does another well large must big even such because turn here why ask went read need land different home us
move try kind hand picture again change off play spell air away animal house point page letter mother answer found
study still learn should world high every near add food between own below country plant last school father keep tree
never start city earth eye light thought head under story saw left few while along might close something seem next
hard open example begin life always those both paper together got group often run important until side feet car mile
night walk white sea began grow took river four carry state once book hear stop without second later miss idea enough
eat face watch far really almost let above girl sometimes mountain cut young talk soon list song being leave family
five six seven eight nine ten please thank thanks hello hi sorry sure welcome okay yes correct certainly happy glad
unfortunately however therefore today tomorrow yesterday week weeks month months days hours minutes morning evening
monday tuesday wednesday thursday friday saturday sunday january february march april june july august september
october november december customer customers order orders item items product products price prices total cost refund
refunds return returns exchange cancel cancelled cancellation deliver delivered delivery ship shipped shipping
shipment address street zip email phone card credit debit gift payment payments method account user users id ids
status pending processed processing details information reason request requests policy agent assistant tool tools
function functions calls argument arguments result results error errors success failed failure confirm confirmed
confirmation update updated modify modified changed changes check checked available availability stock size color
colour quantity amount balance bill receipt invoice discount voucher coupon points member membership loyalty
subscription books bookshop shop store author authors title titles edition editions hardcover paperback hardback copy
copies novel novels poetry cookbook atlas dictionary biography fiction history science travel children garden chess
music art shelf shelves reserve reserved reservation reservations hold holds waitlist recommend recommendation wrapped
wrapping wrap note message messages desk clerk manager human transfer transferred branch counter pick pickup collect
collected parcel tracking late lost damaged missing wrong broken torn misprint replace replacement replaced sent send
received receive arrive arrived expected original cheaper cheapest expensive budget least buy bought purchase
purchased pay paid owe charge charged refunded credited apply applied valid invalid expired allowed unable cannot able
eligible rule rules guideline guidelines identity verify verified verification known unknown exists exist match
matches matched search searched lookup looking listed created create delete deleted remove removed added given giving
noted done finished complete completed question questions answers problem problems issue issues option options choice
choose chosen prefer preferred step steps following exactly already instead either neither separately everything
nothing anything someone anyone nobody somebody whether since although unless except during within am thinking
reasoning plan finally actually wait system provided signature signatures json object tags xml train test task tasks
reward turns episode episodes token tokens model engine seed value values key keys type types string strings integer
numbers boolean array null true false properties required description parameters enum additional minimum maximum
default format date red blue green black silver gold brown grey yellow purple orange pink medium north south east west
hill lake park road lane avenue square bridge station market church mill castle anna ben clara david emma felix grace
hugo iris james kate leo mia nora oscar paul quinn rosa sam tom uma victor wendy smith jones taylor wilson evans
thomas johnson roberts walker wright thompson hughes edwards hall wood
emails com org net example regret wait trouble unit units once line lines total totals whose until upon per via plus
reference swap swapped top else record records owner wish wishes wants wanted dollars cents asked asks final join
kinds exact none signed words parts audio audiobook spoken comes goes text till shall plain sold random told split
mind returned fact facts conversation foreign aunt uncle shown shows tier pair mention mentions yet action actions
gave longer canceled says winter summer spring autumn club friend friends reads whole cards difference arrives ago
describe described data several skipped goodbye costs rest accept accepted elsewhere whatever window money quiet bring
surprise birthday love ending parcels cake full short sentences yourself greeting introduction identify taken
exchanged feel generous serve speak touch others low space level cases reach body role belongs takes digit digits
makes ends called content better pass forward eleven twelve twenty thirty hundred thousand glass moon fox clock
lighthouse piano thief whale baker ferry midnight hollow salt iron narrow painted distant early hungry clever borrowed
burning velvet cheap spare enjoy pleased patience moment anytime besides kept contact company business team service
support ticket case closed opened express standard free overnight tax fee fees percent sum adds extra rate stars
review reviews pages chapter chapters language english french german spanish japanese classic modern mystery romance
fantasy adventure drama thriller essay essays comic comics math code field fields row rows table file files path index
length roles prompt output input ready ended stopped started retry tried trying works worked working needs needed
using used uses
`
  .trim()
  .split(/\s+/);

/** Punctuation, JSON and line ends ("·" a space, "¶" a line feed); where several fit, the longest is taken. */
export const readablePunctuation: readonly string[] = `
¶¶ ¶¶¶ .¶ .¶¶ ,¶ :¶ :¶¶ ?¶ ?¶¶ !¶ !¶¶ )¶ "¶ }¶ }¶¶ },¶ {¶ [¶ ]¶ ],¶ ",¶ "}¶ "}}¶ }}¶ "}}}¶ }}}¶ "]¶ "]}}¶ ]}}¶
·· ··· ···· ····· ······ ········ ... ·... -- ·- ·-- -> ·-> => ·= == ·== ·+ ·* ** ·** ·/ // :// ·# ## ### ·& ·$ ·% ·@
</ ·</ >¶ ·( ·[ ·{ ·< ·> () [] {} ·() ·[] ·{} ), ). .) ., ); ], }, }} }}} }}}} ]} ]}} }] [{ ·[{ {" ·{" {{" ": ": ·" ", "} "}} "}}} "}, "}],
"}] "] "], "]} "]}} [" ·[" "]," "," ":" ":{" ":[" ":{ ":[{" {"" }," "},{" }," "}," [{" ·[{" !" ." ?" ," "? ". "; "- ', ': '. ·' ?! !! #W #B
`
  .trim()
  .split(/\s+/)
  .map((piece) => piece.replaceAll("·", " ").replaceAll("¶", "\n"));
