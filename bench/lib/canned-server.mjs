// A server that answers /generate with replies prepared before the clock starts, in a process of
// its own. It reads only a request's `rid`, so its cost stays out of the comparison. With `record`
// it keeps every body for a null client; with `delay` it answers as late as a model would. A reply
// for "<task>:<turn>" serves every sample of the task; a reply that is `null` never comes.
//
// Parent to child: { type: "load", replies: { "<episode>:<turn>": json }, record, delay: {
// medianMs, sigma } | null }, { type: "bodies" }. Child to parent: { type: "listening", port }, {
// type: "bodies", bodies: [[key, body], ...] }.

import { createServer } from "node:http";

import { requestIdOf } from "../../dist/rollout/episode/sample-turn.js";

/** More episodes of a task than any benchmark runs. */
const mostEpisodes = 8192;

const replies = new Map();
/** Episode ids by the key that requests carry instead. */
const episodes = new Map();
const tasks = new Set();
let places = 0;
const bodies = new Map();
let isRecording = false;
let delay = null;
const tail = 800;

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    // Request that a run sends before its first episode.
    if (request.method === "GET") return answer(response, "", '{"weight_version":"1","is_generation":true}');
    const body = Buffer.concat(isRecording ? chunks : endsOf(chunks));
    const key = keyOf(body);
    const reply = replies.get(key) ?? replies.get(key.replace(/#\d+:/, ":"));
    if (isRecording) bodies.set(key, body.toString("latin1"));
    if (reply?.length === 0) return;
    if (delay === null) answer(response, key, reply);
    else setTimeout(() => answer(response, key, reply), drawMs(delay));
  });
});

/**
 * Both ends of a body, one of which contains its id; copying the rest would cost CPU time of the
 * measured client.
 */
function endsOf(chunks) {
  return [
    ...chunks.slice(0, 1).map((chunk) => chunk.subarray(0, tail)),
    ...chunks.slice(-2).map((chunk) => chunk.subarray(-tail)),
  ];
}

function answer(response, key, reply) {
  response.writeHead(reply === undefined ? 404 : 200, { "content-type": "application/json" });
  response.end(reply ?? JSON.stringify({ error: { message: `no reply for ${key}` } }));
}

/** Log-normal. */
function drawMs({ medianMs, sigma }) {
  const normal = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return medianMs * Math.exp(sigma * normal);
}

/** "<episode>:<turn>" from the request id, which is near the end or near the beginning of the body. */
function keyOf(body) {
  const pattern = /"rid": ?"([^"_]*)_t(\d+)_r\d+"/;
  const match =
    pattern.exec(body.subarray(-tail).toString("latin1")) ??
    pattern.exec(body.subarray(0, tail).toString("latin1")) ??
    pattern.exec(body.toString("latin1"));
  return match === null ? "" : `${episodeOf(match[1])}:${Number(match[2])}`;
}

/**
 * Finds the episode with this key: keys are added for one more episode of every task at a time
 * until it is found.
 */
function episodeOf(key) {
  for (; !episodes.has(key) && places < mostEpisodes; places++) {
    for (const task of tasks) addEpisode(`${task}#${places}`);
  }
  return episodes.get(key);
}

function addEpisode(id) {
  episodes.set(requestIdOf(id, { turn: 0, call: 0 }).split("_")[0], id);
}

process.on("message", (message) => {
  if (message.type === "load") {
    isRecording = message.record;
    delay = message.delay;
    for (const [key, json] of Object.entries(message.replies)) {
      replies.set(key, Buffer.from(json ?? ""));
      const id = key.slice(0, key.lastIndexOf(":"));
      addEpisode(id);
      if (!id.includes("#")) tasks.add(id);
    }
    process.send({ type: "loaded" });
  } else if (message.type === "bodies") {
    process.send({ type: "bodies", bodies: [...bodies] });
    isRecording = false;
  }
});
process.on("disconnect", () => process.exit(0));
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => process.send({ type: "listening", port: server.address().port }));
