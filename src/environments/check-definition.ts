// Validates a definition once, when it is loaded, so that a misspelt field is an error message
// before the run and not a fault of every episode. Users write modules in JavaScript as often as in
// TypeScript, so types are not trusted. The message of each schema is the expected value;
// `describeIssue` makes the sentence.

import { z } from "zod";
import { ConfigurationError, messageOf } from "../core/failure.ts";
import { anyNames } from "../lib/any-names.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";

/** Throws a `ConfigurationError` that names the fault and its place. */
export function checkDefinition(definition: unknown): void {
  let name: unknown = null;
  let problem: string | null;
  try {
    name = (definition as { readonly name?: unknown } | null | undefined)?.name;
    problem = findProblem(definition);
  } catch (error) {
    problem = messageOf(error).replace(/\.$/, "");
  }
  if (problem === null) return;
  const which = typeof name === "string" && name !== "" ? `environment "${name}"` : "an environment";
  throw new ConfigurationError(`Cannot define ${which}: ${problem}.`);
}

/** The fault of an agenda, as part of a sentence; `null` if it is valid. */
export function agendaProblem(value: unknown): string | null {
  const { error } = object({ agenda }).safeParse({ agenda: value }, { reportInput: true });
  return error === undefined ? null : describeIssue(error.issues, []);
}

/** The fault of a task, as part of a sentence; `null` if it is valid. */
export function taskProblem(value: unknown): string | null {
  const { error } = object({ task: taskSchema() }).safeParse({ task: value }, { reportInput: true });
  return error === undefined ? null : describeIssue(error.issues, []);
}

function findProblem(definition: unknown): string | null {
  const { error, data } = definitionSchema().safeParse(definition, { reportInput: true });
  if (error !== undefined) return describeIssue(error.issues, []);
  const isEmpty =
    Object.keys(data.tools).length === 0 ||
    Object.values(data.tasks ?? { "": [0] }).every(({ length }) => length === 0);
  return isEmpty ? "it needs at least one tool and one task" : null;
}

const text = z.string("a string");
const name = z
  .string("a string that is not empty")
  .refine((value) => value.trim() !== "", "a string that is not empty");
/** The keys have error messages of their own. */
const record = <Item extends z.ZodType>(item: Item) => anyNames(item, { name, error: "an object" });
const list = <Item extends z.ZodType>(item: Item) => z.array(item, "a list");
const listOfSome = <Item extends z.ZodType>(item: Item) =>
  z.array(item, "a list with at least 1 item").min(1, "a list with at least 1 item");
const code = z.custom((value) => typeof value === "function", "a function");

/** True for a result of `defineRubric` or `defineRanking`; those functions have checked its fields. */
const isMade = (value: unknown, types: readonly string[]): boolean =>
  typeof value === "object" && value !== null && "type" in value && types.includes(String(value.type));
const made = z.custom((value) => isMade(value, ["rubric", "ranking"]), "what defineRubric or defineRanking returned");
const graders = z
  .array(made, "a list")
  .refine(
    (all) => new Set(all.map((one) => (one as { readonly name?: unknown }).name)).size === all.length,
    "a list of graders with names that differ",
  );

/** An object without further keys: an unknown key is a misspelt one. */
const object = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? Object.keys(shape).join(", ") : "an object"),
  });

/** Alternatives, one of which is drawn. */
const choice = listOfSome(text);
const slots = list(object({ name: text, phrases: list(text), answers: choice }));
const confirmation = object({ mustName: list(list(text)), corrections: choice });
const goal = object({
  name: text,
  requests: choice,
  slots,
  confirmation: confirmation.nullable(),
  secondThought: object({ utterances: choice, slots, confirmation }).nullable(),
  settledBy: list(text),
  objections: list(text),
});
const agenda = object({
  greetings: choice,
  slots,
  goals: listOfSome(goal),
  farewells: choice,
  patience: z.custom((value) => typeof value === "number" && value >= 1, "a number of at least 1"),
});

const jsonTypes = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
const jsonType = z.enum(jsonTypes, `one of ${jsonTypes.join(", ")}`);

/**
 * The parts of a JSON Schema that people get wrong by hand; the rest is checked together with the
 * arguments.
 */
const schema: z.ZodType = z.lazy(() => z.object(schemaParts, "an object").or(z.boolean()));
const schemaParts = {
  type: z.array(jsonType).or(jsonType).optional(),
  properties: record(schema).optional(),
  required: list(text).optional(),
  items: z.array(z.unknown()).or(schema).optional(),
};
/** The pipe keeps the value itself, because a schema passes on copies. */
const parameters = z
  .unknown()
  .superRefine((value, context) => {
    if (typeof value === "object") checkPlain(value, context);
  })
  .pipe(z.object({ ...schemaParts, type: z.literal("object", '"object"').optional() }, "an object"));

function taskSchema() {
  // Several tasks often share one state, which is then checked once.
  const known = new Set<unknown>();
  const state = z.unknown().superRefine((value, context) => {
    if (value === undefined) context.addIssue({ code: "custom", message: "plain data" });
    else if (!known.has(value)) checkPlain(value, context);
    known.add(value);
  });
  return object({
    state,
    instruction: text.optional(),
    agenda: agenda.optional(),
    info: record(z.unknown()).superRefine(checkPlain).optional(),
  });
}

function definitionSchema() {
  const weight = z.custom(
    (value) => typeof value === "number" && value >= 0 && value < Infinity,
    "a number of at least 0",
  );
  const grade = z.custom(
    (value) => typeof value === "function" || isMade(value, ["rubric"]),
    "a function, or what defineRubric returned,",
  );
  const endsEpisode = z.boolean("true or false").optional();
  const tool = object({ description: text, parameters, run: code, reward: code.optional(), endsEpisode });
  const task = taskSchema();
  return object({
    name,
    guidelines: text,
    tools: record(tool),
    tasks: record(list(task)).optional(),
    fromRow: code.optional(),
    grade,
    graders: graders.optional(),
    gradeWeight: weight.optional(),
    setup: code.optional(),
    teardown: code.optional(),
    gradesTruncated: z.boolean('"gradesTruncated" is true or false').optional(),
    resume: z.enum(["replay", "restart"], '"replay" or "restart"').optional(),
  });
}

function checkPlain(value: unknown, context: z.core.$RefinementCtx): void {
  try {
    fromPlain(value);
  } catch (error) {
    const reason = messageOf(error)
      .replace(/^.*JSON: /, "")
      .replace(/\.$/, "");
    context.addIssue({ code: "custom", message: "", params: { state: `is not plain data (${reason})` } });
  }
}

type Path = readonly PropertyKey[];

/** The first issue, as part of a sentence. */
function describeIssue(issues: readonly z.core.$ZodIssue[], above: Path): string {
  const issue = issues[0]!;
  const path = [...above, ...issue.path];
  const { code: kind, input } = issue;
  if (kind === "unrecognized_keys") {
    return `${placeOf([...path, issue.keys[0]!])} is unknown; expected one of ${issue.message}`;
  }
  if (kind === "invalid_union") {
    // The union's branch for the type of the value.
    return describeIssue(issue.errors.find(([first]) => first?.code !== "invalid_type") ?? issue.errors[0]!, path);
  }
  if (kind === "invalid_key") {
    return `a key of ${placeOf(path.slice(0, -1))} is ${shown(path.at(-1))}, expected ${issue.issues[0]!.message}`;
  }
  if (kind === "custom" && issue.params !== undefined) return `${placeOf(path)} ${issue.params["state"]}`;
  if (input !== undefined) return `${placeOf(path)} is ${shown(input)}, expected ${issue.message}`;
  const misspelt = issues.find((one) => one.code === "unrecognized_keys" && one.path.length === issue.path.length - 1);
  if (misspelt?.code !== "unrecognized_keys") return `${placeOf(path)} is missing, expected ${issue.message}`;
  return `${placeOf(path)} is missing, and ${placeOf([...above, ...misspelt.path, misspelt.keys[0]!])} is unknown`;
}

function placeOf(path: Path): string {
  const place = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  return place === "" ? "the definition" : place.replace(/^\./, "");
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "string" && value.length <= 40) return JSON.stringify(value);
  const isShort = value === null || typeof value === "number" || typeof value === "boolean";
  return isShort ? String(value) : typeof value === "object" ? "an object" : `a ${typeof value}`;
}
