// Messages to tokens and back, by the model's own chat template and what is known of its family. All parsers are loaded with this entry; a
// rollout imports `on-demand.ts`.

import { addAllFormats } from "../parsers/all-formats.ts";

export * from "./on-demand.ts";

addAllFormats();
