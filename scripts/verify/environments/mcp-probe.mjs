// Client under test for the conformance tool of the protocol, which passes the address of its
// server as the last argument: one of our environments over that server; each of its tools is
// called once.

import { mcpEnvironment } from "../../../dist/environments/remote/mcp/index.js";

const address = process.argv.at(-1) ?? "";
const task = {
  id: "probe",
  split: "test",
  instruction: "Use the tools.",
  agenda: null,
  guidelines: null,
  files: {},
  data: null,
  contentHash: "0",
  grader: () => 1,
};
const source = await mcpEnvironment({ address, tasks: [task], elicitation: "accept-defaults" });
const world = await source.open(source.taskset("test").task(0), { signal: new AbortController().signal, seed: 0 });
for (const { name, definition } of world.tools) {
  const body = definition.get("function");
  const schema = body instanceof Map ? body.get("parameters") : null;
  const properties = schema instanceof Map ? schema.get("properties") : null;
  const names = properties instanceof Map ? [...properties.keys()] : [];
  const result = await world.call({ name, arguments: new Map(names.map((one, index) => [one, index + 2])) });
  process.stdout.write(`${name}: ${result.text.slice(0, 200)}\n`);
}
await world.close?.();
await source.close();
