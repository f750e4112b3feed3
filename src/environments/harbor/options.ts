// The options of Harbor tasks, in a file of their own, so that code that only lists them loads neither
// the reader of tasks nor the sandbox.

import { choice, flag, section, text } from "../../parts/setting.ts";

export const harborOptions = section("Tasks", {
  harborNetwork: choice("<policy>", "refuse", "none", "host").help(
    "Harbor tasks that want a network: refuse them, run them with none, or share this machine's network with them",
  ),
  harborVariables: text("<list>", "names of environment variables, separated by commas").help(
    "environment variables of this process that the task.toml of Harbor tasks may read",
  ),
  harborSkip: flag.help("leave out Harbor tasks that the sandbox cannot run, instead of refusing the folder"),
});
