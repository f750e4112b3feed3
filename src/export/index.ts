// Exporters: samples to the rows that trainers read, and rows to files.

export { type AtroposRow, toAtroposRow } from "./atropos.ts";
export { type ChatMessage, type ChatToolCall, type Conversation, conversationOf } from "./chat-messages.ts";
export {
  type EpisodeToExport,
  type ExportContext,
  type ExportedRow,
  type ExportFormat,
  type ExportFormatName,
  exportFormatNames,
  exportFormats,
} from "./export-format.ts";
export { type ExportedGroup, exportGroup, type GroupToExport, type LeftOut } from "./export-group.ts";
export type { ExportOrigin } from "./export-origin.ts";
export { createJsonLinesFile } from "./json-lines-file.ts";
export { createParquetFile } from "./parquet-file.ts";
export { type PreferenceFacts, type PreferenceRow, toPreferenceRows } from "./preferences.ts";
export { type AnyRow, type Columns, type ColumnType, rowLine } from "./row-columns.ts";
export type { EpisodeFacts, SampleFacts, WeightSpanFacts } from "./row-facts.ts";
export type { RowFile } from "./row-file.ts";
export { type SftRow, toSftRow } from "./sft.ts";
export { type SftTokensRow, toSftTokensRow } from "./sft-tokens.ts";
export {
  type SlimeMetadata,
  type SlimeOptions,
  type SlimeOrigin,
  type SlimeRow,
  slimeRowLine,
  toSlimeRow,
} from "./slime.ts";
export { type TinkerRow, toTinkerRow } from "./tinker.ts";
export { toTrlRow, type TrlRow } from "./trl.ts";
export { toVerifiersRow, type VerifiersNode, type VerifiersRow, type VerifiersTrace } from "./verifiers.ts";
export { toVerlRow, type VerlRow } from "./verl.ts";
export { parseWhere, type Where } from "./where/parse-where.ts";
export { WhereError } from "./where/where-error.ts";
export { type WhereFieldName, whereFieldKinds, type WhereFields } from "./where/where-fields.ts";
