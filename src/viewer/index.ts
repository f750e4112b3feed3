// Public entry of the viewer: a local web page over runs, served or written to one file. It reads and never writes a run.

export { answer, type ViewerParts } from "./answers.ts";
export { type EpisodeStore, isTrainingFolder, openFolderStore, type StoreFacts } from "./episode-store.ts";
export { exportedPage, type PageData, readPageParts } from "./page.ts";
export { RunView } from "./run-view.ts";
export { serveViewer, type ViewerAddress } from "./server.ts";
export { openTrainingStore } from "./training.ts";
