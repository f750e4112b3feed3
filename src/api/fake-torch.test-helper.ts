// A stand-in for the Python that trains a real model: a Node program that answers the search for
// packages, serves SGLang's protocol, and records what its learner is told. It learns nothing.

import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A call of the learner, as the process logged it. */
export type LearnerCall = { readonly path: string; readonly body: Readonly<Record<string, unknown>> };

const program = (missing: readonly string[]): string => `#!${process.execPath}
const { createServer } = require("node:http");
const { appendFileSync, writeFileSync } = require("node:fs");
const [, , ...args] = process.argv;
if (args[0] === "-c") {
  console.log(JSON.stringify([[3, 12], ${JSON.stringify(missing)}]));
  process.exit(0);
}
const valueOf = (name) => args[args.indexOf(name) + 1];
const log = (line) => appendFileSync(${JSON.stringify("LOG")}, JSON.stringify(line) + "\\n");
log({ path: "start", body: { args } });
if (valueOf("--model").endsWith("broken")) {
  console.error("Cannot load the model in broken: it is broken; use another.");
  process.exit(2);
}
let version = valueOf("--weight-version");
const answer = (path, body) => {
  if (path === "/model_info") return { model_path: "m", weight_version: version };
  if (path === "/generate") {
    const [end] = body.sampling_params.stop_token_ids;
    const ids = [100 + ((body.sampling_params.sampling_seed ?? 0) % 10), end];
    return { text: "", output_ids: ids, meta_info: { id: body.rid, finish_reason: { type: "stop", matched: end },
      prompt_tokens: body.input_ids.length, completion_tokens: 2, cached_tokens: 0, weight_version: version,
      output_token_logprobs: ids.map((id) => [-0.5, id, null]) } };
  }
  if (!path.startsWith("/learner/") && path !== "/update_weight_version") return null;
  log({ path, body });
  if (path === "/update_weight_version") return void (version = body.new_version) ?? { success: true };
  if (path === "/learner/save") return void writeFileSync(body.folder + "/adapter.gguf", version) ?? { success: true };
  if (path === "/learner/update") return { gradient_norm: 0.25 };
  const outcomes = body.sequences.map(({ targets }) => ({ logprobs: targets.map(() => -0.52), entropies: targets.map(() => 2) }));
  return { loss: 0.1, entropy: 2, kl: 0, clipped: 0, corrected: 3, sequences: outcomes };
};
const server = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  const reply = answer(request.url, text === "" ? {} : JSON.parse(text));
  response.writeHead(reply === null ? 404 : 200, { "content-type": "application/json" }).end(JSON.stringify(reply));
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port, parameters: 5e8,
  trained_parameters: 8e6, needed_bytes: 6e9, free_bytes: null, saves_memory: true, context: 512, device: "cpu", threads: 2 })));
process.stdin.on("end", () => process.exit(0)).resume();
`;

/** Writes the program into a folder. `missing`: packages that it claims to lack. */
export async function fakeTorch(
  folder: string,
  missing: readonly string[] = [],
): Promise<{ readonly python: string; calls(): Promise<readonly LearnerCall[]> }> {
  await mkdir(folder, { recursive: true });
  const [python, log] = [join(folder, "python.cjs"), join(folder, "calls.jsonl")];
  await writeFile(python, program(missing).replace('"LOG"', JSON.stringify(log)));
  await chmod(python, 0o755);
  const calls = async (): Promise<readonly LearnerCall[]> => {
    const lines = (await readFile(log, "utf8").catch(() => "")).split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as LearnerCall);
  };
  return { python, calls };
}
