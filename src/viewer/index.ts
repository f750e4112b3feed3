// Public entry of the viewer: a local web page over runs, served or written to one file. It only
// reads runs.

export type { ViewerParts } from "./answers.ts";
export { type EpisodeStore, isTrainingFolder, openFolderStore } from "./episode-store.ts";
export { type ExportChoice, exportPage } from "./export-page.ts";
export { isRunFolder } from "./home-walk.ts";
export { Home } from "./home.ts";
export { openForeignStore } from "./foreign-store.ts";
export { RunView, type RunViewOptions } from "./run-view.ts";
export type { RowFault } from "./wire/index.ts";
export { serveViewer } from "./server.ts";
export { readTrainerLogprobs } from "./trainer-logprobs.ts";
export { openTrainingStore } from "./training.ts";
