// The markers of PLaMo 3, which its parsers of calls and of reasoning share.

export const plamoStart = "<|plamo:";
const plamo = (name: string): string => `${plamoStart}${name}:plamo|>`;

export const plamoTags = {
  requests: plamo("begin_tool_requests"),
  requestsEnd: plamo("end_tool_requests"),
  request: plamo("begin_tool_request"),
  requestEnd: plamo("end_tool_request"),
  toolName: plamo("begin_tool_name"),
  toolNameEnd: plamo("end_tool_name"),
  toolArguments: `${plamo("begin_tool_arguments")}<|plamo:constrain|>json<|plamo:msg|>`,
  toolArgumentsEnd: plamo("end_tool_arguments"),
  thought: plamo("begin_think"),
  thoughtEnd: plamo("end_think"),
  turnEnd: "<|plamo:tag|>",
};

/** All of them; the last three do not belong to calls. */
export const plamoMarkers: readonly string[] = Object.values(plamoTags);

/** Text without a marker at its end that is not complete. */
export function withoutOpenMarker(text: string): string {
  const start = text.lastIndexOf(plamoStart);
  const rest = start === -1 ? "" : text.slice(start);
  const isOpen = rest !== "" && plamoMarkers.some((marker) => marker.length > rest.length && marker.startsWith(rest));
  return isOpen ? text.slice(0, start) : text;
}
