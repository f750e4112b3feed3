// Experts and kept ids of rows that are sent over HTTP: a row has the bytes themselves, because its
// reader has no file beside it.

import type { ExportContext, RoutedExpertsPlace, SamplingMaskPlace } from "../export/index.ts";
import { openRoutedExperts, openSamplingMasks } from "../store/index.ts";
import { expertsOf, samplingMasksOf } from "../trajectories/index.ts";
import { widened } from "./export-experts.ts";

export type InlineBytes = Required<Pick<ExportContext, "expertsOf" | "samplingMaskOf">> & { close(): void };

/** Reads the bytes of a run folder; the files are opened when a row first needs them. */
export function openInlineBytes(folder: string): InlineBytes {
  const [experts, masks] = [openRoutedExperts(folder), openSamplingMasks(folder)];
  return {
    expertsOf: (sample, { episode }): RoutedExpertsPlace | null => {
      const parts = expertsOf(sample, episode.trajectory);
      if (parts === null) return null;
      const { layers, topk } = parts[0]!;
      const width = Math.max(...parts.map((part) => part.width));
      const bytes = parts.map((part) => widened(experts.read(part), part.width, width));
      const shape = [sample.tokens.length - 1, layers, topk] as const;
      return { base64: base64Of(bytes), dtype: width === 1 ? "uint8" : "uint16", shape };
    },
    samplingMaskOf: (sample, { episode }): SamplingMaskPlace | null => {
      const parts = samplingMasksOf(sample, episode.trajectory);
      if (parts === null) return null;
      let [tokens, ids] = [0, 0];
      for (const part of parts) {
        tokens += part.tokens;
        ids += part.ids;
      }
      return { base64: base64Of(parts.map((part) => masks.read(part))), tokens, ids };
    },
    close: () => {
      experts.close();
      masks.close();
    },
  };
}

function base64Of(parts: readonly Uint8Array[]): string {
  return Buffer.concat(parts).toString("base64");
}
