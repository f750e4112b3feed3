// An operation with its deed: a row of the table that router and document are made from.

import type { Call } from "./operations.ts";
import type { Operation } from "./wire/open-api.ts";

export type Route = Operation & { readonly handle: (call: Call) => Response | Promise<Response> };

/** What most operations have not. */
export const none = { query: {}, body: null, takesKey: false } as const;
export const secured = { access: "token" } as const;
