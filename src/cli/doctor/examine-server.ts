// `doctor engine`: the contract of engines put to a server that somebody else runs, whole and streamed. Says what a rollout will
// rely on, check by check; plays no episode and needs no model folder.

import { AttributedError, ConfigurationError } from "../../core/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createVllmEngine } from "../../engines/vllm/index.ts";
import { asFields, createHttpPool, resolveAddress } from "../../http/index.ts";
import { type CheckOutcome, examineEngine } from "../../testing/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import { readKey } from "../../api/secrets.ts";
import { coloursFor } from "../display/terminal-text.ts";
import { rolloutSettings } from "../../api/rollout-settings.ts";
import { readFlag } from "../../api/setting.ts";

export type ServerFlags = {
  readonly url?: string;
  readonly engine?: string;
  readonly apiKeyEnv?: string;
  readonly endpoint?: string;
  readonly turnTimeout?: string;
  readonly maxContextTokens?: string;
  readonly exclusive?: boolean;
  readonly json?: boolean;
};

type Examined = { readonly mode: "whole" | "streamed" } & CheckOutcome;

/** Resolves with the exit code: 0 when no check failed, 1 when one did. Rejects when the server cannot be examined. */
export async function examineServer(flags: ServerFlags, context: CliContext): Promise<number> {
  const { stdout, env, drain, cancel } = context;
  const name = readFlag(rolloutSettings.engine, flags.engine) ?? "sglang";
  if (name !== "sglang" && name !== "vllm") {
    throw new ConfigurationError(`Cannot examine engine "${name}": it has no server; use --engine sglang or vllm.`);
  }
  if (flags.url === undefined) {
    throw new ConfigurationError(
      "Cannot examine a server: none is named; give --url, like --url http://127.0.0.1:30000.",
    );
  }
  const apiKey = readKey(env, flags.apiKeyEnv ?? null, "--api-key-env");
  const options = {
    url: flags.url,
    apiKey,
    timeoutMs: readFlag(rolloutSettings.turnTimeout, flags.turnTimeout) * 1000,
  };
  const endpoint = readFlag(rolloutSettings.endpoint, flags.endpoint);
  const open = (stream: boolean) =>
    name === "vllm"
      ? createVllmEngine({ ...options, stream, endpoint, onWarning: () => {} })
      : createSglangEngine({ ...options, stream });
  const address = await firstContact(open(false), cancel);
  const contextTokens =
    readFlag(rolloutSettings.maxContextTokens, flags.maxContextTokens) ?? (await readContext(options));
  const colours = coloursFor(stdout, env);
  const tell = (line: string): void => void (flags.json === true ? null : stdout.write(`${line}\n`));
  tell(`${name} at ${address}, ${contextTokens === null ? "context not known" : `${contextTokens} tokens of context`}`);
  const examined: Examined[] = [];
  for (const mode of ["whole", "streamed"] as const) {
    await examineEngine({
      open: () => open(mode === "streamed"),
      contextTokens,
      unpausable:
        flags.exclusive === true ? null : "it would hold or end everyone's calls; --exclusive when nobody else has any",
      pauseModes: name === "vllm" ? ["abort", "in-place"] : ["abort", "retract", "in-place"],
      signal: drain,
      onOutcome: (outcome) => {
        examined.push({ mode, ...outcome });
        const { result, reason } = outcome;
        const shown = { ok: colours.green, failed: colours.red, "not applicable": colours.dim }[result](
          result.padEnd(14),
        );
        tell(`  ${mode.padEnd(8)}  ${shown}  ${outcome.name}${reason === null ? "" : `: ${reason}`}`);
      },
    });
  }
  const count = (result: CheckOutcome["result"]): number => examined.filter((one) => one.result === result).length;
  tell(`${count("ok")} ok, ${count("failed")} failed, ${count("not applicable")} not applicable`);
  if (flags.json === true) {
    stdout.write(`${JSON.stringify({ engine: name, address, contextTokens, checks: examined }, null, 2)}\n`);
  }
  if (drain.aborted) return exitCodes.interrupted;
  return count("failed") === 0 ? exitCodes.done : exitCodes.failed;
}

/** A server that cannot be asked is a mistake in the command, and not thirty checks that failed. */
async function firstContact(
  engine: ReturnType<typeof createSglangEngine | typeof createVllmEngine>,
  signal: AbortSignal,
) {
  try {
    if (await engine.health({ signal })) return engine.address;
    throw new ConfigurationError(
      `Cannot examine ${engine.address}: it answers that it is not healthy; wait until it has loaded, or restart it.`,
    );
  } catch (error) {
    if (!(error instanceof AttributedError) || error.failure.code === "cancelled") throw error;
    throw new ConfigurationError(error.message, { cause: error });
  } finally {
    await engine.close();
  }
}

/** What SGLang and vLLM say of their model; `null` when they do not, as routers. */
async function readContext({
  url,
  apiKey,
}: {
  readonly url: string;
  readonly apiKey: string | null;
}): Promise<number | null> {
  const pool = createHttpPool({ boundary: "engine", connections: 1 });
  try {
    const base = resolveAddress(
      { url },
      { product: "server", defaultPort: 80, endpoints: /\/(generate|v1|inference)(\/.*)?$/ },
    );
    const headers: Record<string, string> = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    const request = { base, method: "GET" as const, path: "/v1/models", headers, body: null };
    const answer = await pool.request(request, { timeoutMs: 10_000, maxBytes: 1_000_000 });
    const models: unknown = asFields(JSON.parse(answer.body.toString("utf8")))?.["data"];
    const length = Array.isArray(models) ? asFields(models[0])?.["max_model_len"] : null;
    return typeof length === "number" && Number.isSafeInteger(length) && length > 0 && length < 4_000_000
      ? length
      : null;
  } catch {
    return null;
  } finally {
    await pool.close();
  }
}
