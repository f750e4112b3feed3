// Options of users, beside the files that read them: the model that simulates a user, the lines of
// a scripted one, and the recording that is replayed.

import { chatAddress, choice, file, named, section, variable } from "../parts/setting.ts";

export const modelUserOptions = section("The user", {
  userModel: named("a model").help(
    "model of the simulated user: provider/model, or its name on the server of --user-url",
    { isCommon: true },
  ),
  userUrl: chatAddress.help("OpenAI-compatible server of the user's model, like http://127.0.0.1:8000/v1"),
  userApiKeyEnv: variable.help(
    "environment variable with the key of that server or provider (default: the provider's usual one)",
  ),
  userAuthorizationEnv: variable.help(
    'environment variable with the value of the Authorization header that that server is sent, in place of a key, like "Basic <base64>"',
  ),
  userPrompts: choice("<source>", "data", "own").help(
    "prompts of simulated users: those of the data folder where it has some, or our own",
  ),
  userCompat: choice("<which>", "sane", "upstream").help(
    "upstream: model users keep the quirks of the tau-bench reference, for comparison with it",
  ),
});

export const scriptedOptions = section("The user", {
  userLines: file.help("what the scripted user says, one line each"),
});

export const replayOptions = section("The user", {
  replayUsers: file.help(
    "replay the users of such a file, without a model; tasks, trials and seed must be those of the recording",
  ),
});
