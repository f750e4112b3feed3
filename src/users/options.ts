// Options of users, beside the files that read them: the model that simulates a user, the lines of
// a scripted one, and the recording that is replayed.

import { chatAddress, choice, file, named, section, variable } from "../parts/setting.ts";

export const modelUserOptions = section("The user", {
  userModel: named("a model").help(
    "model of the simulated user: provider/model, or its name on the server at --user-url",
    { isCommon: true },
  ),
  userUrl: chatAddress.help("OpenAI-compatible server of the user's model, like http://127.0.0.1:8000/v1"),
  userApiKeyEnv: variable.help(
    "environment variable with the key for that server or provider (default: the provider's usual variable)",
  ),
  userAuthorizationEnv: variable.help(
    'environment variable with the Authorization header for that server, instead of a key, like "Basic <base64>"',
  ),
  userPrompts: choice("<source>", "data", "own").help(
    "prompts of simulated users: those in the data folder, if any, or our own",
  ),
  userCompat: choice("<which>", "sane", "upstream").help(
    "upstream: model users keep the quirks of the tau-bench reference, for comparison with it",
  ),
});

export const scriptedOptions = section("The user", {
  userLines: file.help("file with the lines of the scripted user, in order"),
});

export const replayOptions = section("The user", {
  replayUsers: file.help(
    "replay the users recorded with --record-users, without a model; tasks, trials and seed must match the recording",
  ),
});
