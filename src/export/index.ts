// Exports: samples to the rows that trainers read, and rows to files.

export { type AnyRow, type Columns, type ColumnType, rowLine } from "./columns.ts";
export {
  type ChatMessage,
  type ChatToolCall,
  type Conversation,
  conversationOf,
  type PreferenceFacts,
  type PreferenceRow,
  type SftRow,
  toolsOfSession,
  toPreferenceRows,
  toSftRow,
} from "./conversations.ts";
export {
  createDocumentFile,
  createInspectFile,
  createJsonLinesFile,
  createParquetFile,
  type RowFile,
} from "./files.ts";
export { type AtifRow, type InspectRow, toAtifRow, toInspectRow } from "./logs.ts";
export type {
  EpisodeToExport,
  ExportContext,
  ExportedRow,
  ExportFormat,
  RoutedExpertsPlace,
  SamplingMaskPlace,
} from "./row-format.ts";
export {
  type ExportedGroup,
  type ExportFormatName,
  exportFormatNames,
  exportFormats,
  exportGroup,
  type GroupToExport,
  type LeftOut,
  type TurnRewardsChoice,
  turnRewardsChoices,
} from "./formats.ts";
export type { TeacherScores } from "./teacher.ts";
export type { EpisodeFacts, ExportOrigin, SampleFacts } from "./samples.ts";
export {
  type SlimeMetadata,
  type SlimeOptions,
  type SlimeOrigin,
  type SlimeRow,
  slimeRowLine,
  toSlimeRow,
} from "./slime.ts";
export {
  type AtroposRow,
  type SftTokensRow,
  type TinkerRow,
  toAtroposRow,
  toSftTokensRow,
  toTinkerRow,
  toTrlRow,
  toVerlRow,
  type TrlRow,
  type VerlRow,
} from "./trainers.ts";
export { toVerifiersRow, type VerifiersRow } from "./verifiers.ts";
