// Public entry of the readers of other tools' files.

export {
  type ForeignBranch,
  type ForeignEpisode,
  type ForeignFormat,
  type ForeignMessage,
  type ForeignToolCall,
  foreignTurns,
  uniqueIdOf,
} from "./foreign-episode.ts";
export { type ForeignFile, type ForeignLimits, linesOf, openForeignFile } from "./open-file.ts";
export { recogniseForeignFile } from "./recognise.ts";
