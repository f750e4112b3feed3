// Exporters: samples to the rows that trainers read.

export {
  type SlimeMetadata,
  type SlimeOptions,
  type SlimeOrigin,
  type SlimeRow,
  slimeRowLine,
  toSlimeRow,
} from "./slime.ts";
