import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { PythonError } from "../../python-semantics/index.ts";
import type { SlimeTauAction, SlimeTauParsed } from "./interaction-result.ts";

/** The action name by which τ-bench means speech. */
export const respondAction = "respond";

/**
 * The seed's reading of a parsed reply: the first call is carried out, parameters that are no object turn it into speech, no
 * call is speech. Throws what the seed lets escape: a call without a name is a `ValidationError`.
 */
export function callToAction(parsed: SlimeTauParsed): SlimeTauAction {
  const speech: SlimeTauAction = { name: respondAction, kwargs: new Map([["content", parsed.normalText]]) };
  const call = parsed.calls[0];
  if (call === undefined) return speech;
  const parameters = parseJson(call.parameters);
  if (!(parameters instanceof Map)) return speech;
  if (call.name === null) throw new PythonError("ValidationError", "Action: name is None, a string is needed.");
  return { name: call.name, kwargs: parameters };
}
