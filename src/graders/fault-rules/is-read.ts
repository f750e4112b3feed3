/** Whether a tool only looks, by the first word of its name; a wrong guess only keeps a rule silent. */
export function isRead(tool: string): boolean {
  return /^(get|find|search|list|look|read|check|calculate|think)(_|$)/.test(tool);
}

/** Whether a tool changes something for the user, as far as its name tells. Handing over to somebody else changes nothing. */
export function isChange(tool: string): boolean {
  return !isRead(tool) && !tool.startsWith("transfer");
}
