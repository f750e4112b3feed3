// The JSON Schema of a configuration file, made from the table of settings: editors complete and check a YAML file with it.

import { z } from "zod";
import { renamedSettings, rolloutSettings, settingNames } from "./rollout-settings.ts";
import { keyOf } from "./setting.ts";

/** Of a file for `--config`. What it accepts, a run may still refuse: it knows types and names, not how settings fit together. */
export function configurationSchema(): Readonly<Record<string, unknown>> {
  const properties = settingNames.map((name) => {
    const { schema, help, default: value, group } = rolloutSettings[name];
    // Refinements and conversions of text are code: what they take is said in words.
    const { $schema: _, ...type } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Record<
      string,
      unknown
    >;
    return [keyOf(name), { ...type, title: group, description: help, default: value }] as const;
  });
  const earlier = [...renamedSettings].map(
    ([old, now]) => [old, { ...Object.fromEntries(properties)[now], deprecated: true }] as const,
  );
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Settings of a rollout (trainable-agents rollout --config)",
    type: "object",
    properties: Object.fromEntries([...properties, ...earlier]),
    additionalProperties: false,
  };
}
