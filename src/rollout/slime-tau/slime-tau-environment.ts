// Any environment of ours with a user, seen as the seed sees its environment: one object with `reset` and `step`, the user
// inside, words as the action "respond".

import type { Environment } from "../../core/environment.ts";
import type { UserLine, UserSimulator } from "../../core/user.ts";
import { PythonError, pythonStr } from "../../python-semantics/index.ts";
import { respondAction } from "./call-to-action.ts";
import type { SlimeTauEnvironment } from "./slime-tau-parts.ts";

/** `reset` ignores the index: the environment is that of one task already. */
export function slimeTauEnvironment(environment: Environment, user: UserSimulator): SlimeTauEnvironment {
  const grade = async (): Promise<{ reward: number; info: Environment["info"] }> =>
    environment.grade({ outcome: "completed" });
  return {
    reset: async () => ({ observation: (await user.open()).text, info: environment.info }),
    step: async ({ name, kwargs }) => {
      if (name === respondAction) {
        const content = kwargs.get("content");
        if (content === undefined) throw new PythonError("KeyError", "'content'");
        const words = typeof content === "string" ? content : pythonStr(content);
        environment.hear(words);
        const line: UserLine = await user.reply(words);
        if (line.type === "words") return { observation: line.text, reward: 0, done: false, info: new Map() };
        return { observation: line.text, done: true, ...(await grade()) };
      }
      const { text, endsEpisode, info } = await environment.call({ name, arguments: kwargs });
      if (!endsEpisode) return { observation: text, reward: 0, done: false, info };
      const graded = await grade();
      return { observation: text, done: true, reward: graded.reward, info: new Map([...info, ...graded.info]) };
    },
  };
}
