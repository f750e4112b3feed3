// A gateway whose sessions an API model answers. The API is another gateway, with a scripted
// policy: it speaks every dialect, whole and streamed, and records every request that reaches it.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ApiModelOptions, apiModel } from "../../chat-models/index.ts";
import { createHandlerClient } from "../../http/handler-client.test-helper.ts";
import { createFileRunStore, resumeFileRunStore } from "../../store/index.ts";
import { openWorld, type Policy, type World } from "../gateway-world.test-helper.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../index.ts";

export const realKey = "sk-real-key-of-the-api";

export type ApiCall = {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Record<string, unknown>;
  /** Answer of the API, complete once it has been read to the end. */
  answer: string;
};

export type ApiWorld = {
  readonly gateway: Gateway;
  readonly upstream: World;
  /** Calls in the order in which they arrived. */
  readonly calls: readonly ApiCall[];
  readonly folder: string;
  restart(): Promise<ApiWorld>;
  close(): Promise<void>;
};

export type ApiWorldOptions = {
  readonly policy?: Policy;
  /** Paths that the API has. Default: all. */
  readonly paths?: readonly string[];
  /** Replaces the answer of the API; `null` to let the API answer. */
  readonly answer?: (request: Request, call: number) => Response | Promise<Response> | null;
  readonly api?: Partial<ApiModelOptions>;
  readonly gateway?: GatewayOptions;
};

export async function openApiWorld(options: ApiWorldOptions = {}, folder?: string): Promise<ApiWorld> {
  const { policy = () => "Fine.", paths = null, answer = () => null } = options;
  const upstream = await openWorld(policy);
  const calls: ApiCall[] = [];
  const http = createHandlerClient(
    async (request) => {
      const path = new URL(request.url).pathname + new URL(request.url).search;
      const body = (await request.clone().json()) as Record<string, unknown>;
      const call: ApiCall = { path, headers: Object.fromEntries(request.headers), body, answer: "" };
      calls.push(call);
      const isKnown = paths === null || paths.some((one) => path.startsWith(one));
      const response =
        (await answer(request, calls.length - 1)) ??
        (isKnown ? await upstream.gateway.fetch(request) : Response.json({ detail: "Not Found" }, { status: 404 }));
      return kept(response, call);
    },
    { boundary: "engine" },
  );
  const model = apiModel({
    url: "http://api.test/v1",
    model: "real-model",
    apiKey: realKey,
    http,
    variables: {},
    retry: { maxAttempts: 3, maxElapsedMs: 5000, baseDelayMs: 1, maxDelayMs: 2 },
    ...options.api,
  });
  const place = folder ?? mkdtempSync(join(tmpdir(), "trainable-agents-api-"));
  const earlier = folder === undefined ? null : await resumeFileRunStore(place);
  const store = earlier?.store ?? createFileRunStore(place);
  const manifest = new Map<string, never>([["format", 4 as never]]);
  await store.begin(manifest);
  const gateway = createGateway({ apiModel: model, store }, options.gateway);
  if (earlier !== null) await gateway.restore(earlier);
  const close = async (): Promise<void> => {
    gateway.close();
    await Promise.all([store.close(manifest), upstream.close()]);
  };
  return {
    gateway,
    upstream,
    calls,
    folder: place,
    close,
    restart: async () => {
      await close();
      return openApiWorld(options, place);
    },
  };
}

/** The response; its content is stored in the call while it is read. */
function kept(response: Response, call: ApiCall): Response {
  const decoder = new TextDecoder();
  const body = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        call.answer += decoder.decode(chunk, { stream: true });
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(body ?? null, { status: response.status, headers: response.headers });
}
