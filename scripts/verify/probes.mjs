// Recorded requests to a real server, sent again: status, and shape and error text of the reply,
// must equal the recorded ones. If the folder of recordings is missing, as in a newcomer's clone,
// nothing is sent.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";

/** @typedef {{ readonly name: string, readonly method: string, readonly path: string, readonly body: string | null, readonly status: number, readonly reply: string }} Probe */

/**
 * Rejects with the probes that are answered differently.
 *
 * @param {string} url
 * @param {object} options
 * @param {string} options.file File in the folder of recordings.
 * @param {string} options.model The folder that the server serves, as it was given it.
 * @param {(probe: Probe) => boolean} options.isSent Without those that end a server, or that another start of it answers.
 */
export async function replayProbes(url, { file, model, isSent }) {
  const path = join(root, "..", "shared", "servers", file);
  if (!existsSync(path)) return "no recordings beside this clone (../shared/servers)";
  // Later lines repeat earlier ones; lines without an answer recorded nothing.
  /** @type {Map<string, Probe>} */
  const probes = new Map();
  for (const line of readFileSync(path, "utf8").trim().split("\n")) {
    const probe = /** @type {Probe} */ (JSON.parse(line));
    if (probe.status !== -1) probes.set(`${probe.name} ${probe.path} ${probe.body}`, probe);
  }
  const sent = [...probes.values()].filter(isSent);
  /** @type {string[]} */
  const differing = [];
  for (const probe of sent) {
    const { method, body } = probe;
    const answer = await fetch(url + probe.path, {
      method,
      ...(body === null || method === "GET"
        ? {}
        : { body: body.replaceAll("<model>", model), headers: { "content-type": "application/json" } }),
      signal: AbortSignal.timeout(120_000),
    }).catch((/** @type {unknown} */ error) => error);
    if (!(answer instanceof Response)) {
      differing.push(`${probe.name}: no answer (${String(answer)})`);
      continue;
    }
    const reply = (await answer.text()).replaceAll(model, "<model>");
    if (answer.status !== probe.status) differing.push(`${probe.name}: ${answer.status}, recorded ${probe.status}`);
    else if (!isAlike(shapeOf(reply, answer.status), shapeOf(probe.reply, probe.status))) {
      differing.push(`${probe.name}: ${reply.slice(0, 200)}, recorded ${probe.reply.slice(0, 200)}`);
    }
  }
  if (differing.length > 0) throw new Error(`${differing.length} of ${sent.length} differ: ${differing.join("; ")}`);
  return `${sent.length} of ${probes.size} recorded replies, status, shape and error text equal`;
}

/**
 * Properties that stay the same from one run to the next: keys and types, and the texts of errors.
 * `null` if a recording was truncated.
 *
 * @param {string} reply
 * @param {number} status
 * @returns {unknown}
 */
function shapeOf(reply, status) {
  // The first frame of a stream: the number of later frames depends on timing.
  const [frame = ""] = reply.startsWith("data: ") ? reply.slice(6).split("\n\n") : [reply];
  const value = parsed(frame);
  const isCut = typeof value === "string" && /^[[{]/.test(frame);
  return isCut ? null : kindsOf(value, status >= 400);
}

/** @param {string} text @returns {unknown} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {unknown} value @param {boolean} isError @returns {unknown} */
function kindsOf(value, isError) {
  if (Array.isArray(value)) return value.length === 0 ? null : [kindsOf(value.at(-1), isError)];
  if (typeof value === "object" && value !== null) {
    // Keys of logprobs are sampled tokens, and the finish reason depends on the sampled tokens.
    const entries = Object.entries(value).map(([name, one]) => {
      const isSampled = name === "top_logprobs" || (name === "finish_reason" && !isError && typeof one === "object");
      return [name, isSampled ? null : kindsOf(one, isError)];
    });
    return Object.fromEntries(entries);
  }
  if (value === null) return null;
  // Paths and addresses belong to one machine, and are truncated where the recorder truncated them.
  return isError && typeof value === "string"
    ? value.replace(/(\/[\w.+-]+){2,}|0x[0-9a-f]+|<path>/g, "#").slice(0, 120)
    : typeof value;
}

/**
 * An empty value matches any type.
 *
 * @param {unknown} one @param {unknown} other @returns {boolean}
 */
function isAlike(one, other) {
  if (one === null || other === null) return true;
  if (typeof one !== "object" || typeof other !== "object") return one === other;
  const [first, second] = [Object.entries(one), new Map(Object.entries(other))];
  return (
    first.length === second.size && first.every(([name, value]) => second.has(name) && isAlike(value, second.get(name)))
  );
}
