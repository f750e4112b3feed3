import type { SlimeTauParse } from "./interaction-result.ts";

/** What of a tool-call parser's result the adapter reads; `raised` names the exception the original would let out. */
type Detection = {
  readonly normalText: string;
  readonly calls: readonly { readonly name: string | null; readonly parameters: string; readonly toolIndex: number }[];
  readonly raised: string | null;
};

/** The seed's adapter around SGLang's parser: an exception of the parser becomes an unsuccessful result. */
export function adaptParser(parse: (text: string) => Detection): (text: string) => SlimeTauParse {
  return (text) => {
    const { normalText, calls, raised } = parse(text);
    if (raised !== null) return { success: false, error: raised, parsedResult: null };
    return { success: true, error: null, parsedResult: { normalText, calls } };
  };
}
