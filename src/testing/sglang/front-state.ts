// What the routes of a front share.

import type { HttpBindings } from "@hono/node-server";
import type { Hono } from "hono";
import type { ModelLimits } from "./generate-body.ts";
import type { GenerationContext } from "./generation.ts";

/** The socket of a request, when it came over one. */
export type FrontEnvironment = { readonly Bindings: Partial<HttpBindings> };

export type FrontApp = Hono<FrontEnvironment>;

export type FrontState = GenerationContext & {
  readonly limits: ModelLimits;
  readonly modelPath: string;
};
