// What every front is built with: the web framework, and the socket of a request when it came over one.

import type { HttpBindings } from "@hono/node-server";
import type { Hono } from "hono";

export type FrontEnvironment = { readonly Bindings: Partial<HttpBindings> };

export type FrontApp = Hono<FrontEnvironment>;
