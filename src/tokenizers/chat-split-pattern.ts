// The pattern that splits text before merges, for the tokenizers that this package trains.

/** Names of JSON Schema and of calls. They are never copied, so whole runs of JSON around them may become one token. */
const schemaWords = "type|function|name|description|parameters|properties|required|object|string|integer|arguments";

/** The pattern that cuts text before merges; the first alternative that matches wins. */
export const chatSplitPattern = [
  String.raw`[{}\[\]"](?:[{}\[\]"]|[:,] |${schemaWords})*`,
  String.raw`#\p{Lu}`, // the marker of an id
  String.raw`\p{N}{1,2}`,
  String.raw`\p{Lu}\p{Ll}*`,
  String.raw` ?\p{Ll}[\p{Ll}_]*`,
  String.raw` ?[\p{Lo}\p{Lm}\p{Lt}\p{M}]+`,
  String.raw`[,.;:!?] (?=[\p{Lu}\p{N}#$])`, // takes the space that the next word may not take
  String.raw` ?[^\s\p{L}\p{M}\p{N}#$"{}\[\]]+`,
  String.raw`[#$]`,
  String.raw`\n+`,
  String.raw`\s`,
].join("|");
