// The expert as a server of SGLang's protocol in this process, for a preset whose loop speaks to one.

import { createSglangEngine } from "../engines/sglang/index.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import type { ConnectedEngine } from "../parts/engine.ts";
import { createSglangFront } from "../testing/index.ts";
import { type ExpertContext, expertOf } from "./open-expert.ts";
import { type EngineParts, openServer } from "./open-servers.ts";

/** Closing the result ends the server. */
export async function openExpertServer(context: ExpertContext, parts: EngineParts): Promise<ConnectedEngine> {
  const { tokenizer, renderer } = context.model;
  const front = createSglangFront({
    sampler: createExpertSampler(await expertOf(context)),
    tokenizer,
    modelPath: "expert",
    endTokenIds: [renderer.stopTokenIds[0] ?? 0],
  });
  const server = await front.listen();
  const engine = createSglangEngine({ url: server.url, connections: context.concurrency });
  const connected = await openServer(engine, "an SGLang", parts);
  return {
    ...connected,
    close: async () => {
      await connected.close();
      await server.close();
    },
  };
}
