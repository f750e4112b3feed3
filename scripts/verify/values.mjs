// `npm run verify -- values`: of 46 kinds of arguments, the number that survives being written by
// each chat template and read by its family's parser, and the kinds that do not: for every template
// of packages on PyPI, and of ../shared/models. Prints the figures; a test checks those of
// ../shared (src/renderers/audit/argument-values.test.ts), and the counts of all are in
// docs/templates.md.

import { auditTemplate } from "../../dist/renderers/index.js";
import { standIn } from "./families.mjs";
import { installFamilies, templatesAtHand } from "./families/templates-at-hand.mjs";

/**
 * @param {{ readonly quick: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyValues({ quick }) {
  installFamilies({ quick });
  for (const template of templatesAtHand({ quick })) {
    const { renderer, values } = auditTemplate(await standIn(template));
    const parser = renderer?.toolCallParser.name ?? "none";
    process.stdout.write(`${template.names[0]?.padEnd(44)} ${parser.padEnd(12)} ${described(values)}\n`);
  }
  return 0;
}

/** @param {import("../../dist/renderers/index.js").TemplateAudit["values"]} values */
function described(values) {
  if (values === null) return "the template writes no call that the parser reads";
  const { written, lost, refused } = values;
  const parts = [`${written - lost.length} of ${written}`];
  if (lost.length > 0) parts.push(`not ${lost.join(", ")}`);
  if (refused.length > 0) parts.push(`the template raises for ${refused.join(", ")}`);
  return parts.join("; ");
}
