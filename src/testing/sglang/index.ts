// The SGLang protocol front and its router.

export { garbleSglang, garblings } from "./garble.ts";
export { createRouterFront, type RouterFront, type RouterFrontOptions, type RouterWorker } from "./router-front.ts";
export { sglangProtocols, type SglangProtocol, type SglangVersion } from "./protocol.ts";
export { createSglangFront, type SglangFront, type SglangFrontOptions } from "./sglang-front.ts";
