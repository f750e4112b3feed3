import { Script } from "node:vm";

import { describe, expect, test, vi } from "vitest";

import { ChatTemplateError } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { compileChatTemplate } from "./compile-chat-template.ts";

function render(template: string): string {
  return segmentsText(
    compileChatTemplate(template)({
      messages: [],
      tools: null,
      addGenerationPrompt: false,
      kwargs: new Map(),
      context: { specialTokens: new Map(), now: null },
    }),
  );
}

function kindOf(template: string): string {
  try {
    return `rendered ${render(template).length}`;
  } catch (error) {
    if (error instanceof ChatTemplateError) return error.kind;
    throw error;
  }
}

describe("a hostile template is stopped, not the process", () => {
  test.each([
    [
      "a text that doubles",
      '{% set ns = namespace(t="x") %}{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}',
    ],
    ["a text repeated", '{{ "x" * 10 ** 12 }}'],
    ["a list repeated", "{{ [0] * 10 ** 12 }}"],
    [
      "a list that doubles",
      "{% set ns = namespace(l=[0]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    ],
    ["a huge integer", "{{ 10 ** 10 ** 4 }}{{ 10 ** 10000 }}"],
    ["a wide format", '{{ "%999999999d" % 1 }}'],
    ["a wide field", '{{ "{:>999999999}".format("x") }}'],
    ["a wide line", '{{ "x"|center(10 ** 10) }}'],
    ["a wide indentation", '{{ "x"|indent(10 ** 10) }}'],
    ["a growing replacement", '{% set x = "x" * 10 ** 6 %}{{ x|replace("x", x) }}'],
    ["loops within loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"],
    ["much output", '{% set x = "x" * 10 ** 6 %}{% for a in range(99999) %}{{ x }}{% endfor %}'],
    ["much reading", '{% set x = "x" * 10 ** 7 %}{% for a in range(99999) %}{% if "y" in x %}{% endif %}{% endfor %}'],
    [
      "lists that are kept",
      "{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = ns.l + [range(90000)|list] %}{% endfor %}",
    ],
    ["a huge template", "{{ x }}".repeat(200_000)],
  ])("%s: limit", { timeout: 30_000 }, (_, template) => {
    expect(kindOf(template)).toBe("limit");
  });

  test.each([
    [
      "a list of lists that doubles",
      "{% set ns = namespace(l=[0]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    ],
    [
      "a macro that calls itself twice",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(150) }}",
    ],
  ])("%s: limit, by the clock", (_, template) => {
    const hostile = compileChatTemplate(template, { timeoutMs: 300 });
    const context = { specialTokens: new Map(), now: null };
    const input = { messages: [], tools: null, addGenerationPrompt: false, kwargs: new Map(), context };
    const message = "Cannot render the conversation with this chat template: it takes more than 0.3 seconds.";
    expect(() => hostile(input)).toThrow(expect.objectContaining({ kind: "limit", message }));
    // An interrupted rendering does not affect the next one.
    expect(segmentsText(compileChatTemplate("{{ 1 + 1 }}")(input))).toBe("2");
  });

  test("macros that call themselves, and nesting without end: RecursionError, as in Python", () => {
    expect(kindOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")).toBe("RecursionError");
    expect(kindOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}")).toBe("RecursionError");
    expect(kindOf(`{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`)).toBe("RecursionError");
    expect(kindOf(`{{ ${"a + ".repeat(100_000)}a }}`)).toBe("RecursionError");
    const deep = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(150) }}";
    expect(kindOf(deep)).toBe("rendered 151");
  });

  const emptyInput = {
    messages: [],
    tools: null,
    addGenerationPrompt: false,
    kwargs: new Map(),
    context: { specialTokens: new Map(), now: null },
  };
  const shared = "{% set ns = namespace(l=[0], m=[0]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}"; // prettier-ignore
  test.each([
    ["that is written", `${shared}{{ ns.l }}`],
    ["that is written as JSON", `${shared}{{ ns.l|tojson }}`],
    ["that is compared", `${shared}{{ ns.l == ns.m }}`],
    ["that is put in order", `${shared}{{ ns.l < ns.m }}`],
    ["that is formatted", `${shared}{{ "%s" % [ns.l] }}`],
    ["that is a key", '{% set ns = namespace(t=(0,)) %}{% for i in range(90) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}'], // prettier-ignore
  ])("a list of lists %s: limit, by the clock, which an ordinary rendering does not start", (_, template) => {
    const hostile = compileChatTemplate(template, { timeoutMs: 100 });
    expect(() => hostile(emptyInput)).toThrow(expect.objectContaining({ kind: "limit" }));
  });

  test("a thread watches what is compiled and long renderings, which are begun again, but no ordinary one", () => {
    const watch = vi.spyOn(Script.prototype, "runInContext");
    try {
      const ordinary = compileChatTemplate("{% for a in range(1000) %}{{ a }},{% endfor %}");
      const long = compileChatTemplate(
        "{% for a in range(2000) %}{% for b in range(1000) %}{% endfor %}{{ a }},{% endfor %}",
      );
      expect(watch).toHaveBeenCalledTimes(2);
      expect(segmentsText(ordinary(emptyInput))).toHaveLength(3890);
      expect(watch).toHaveBeenCalledTimes(2);
      expect(segmentsText(long(emptyInput))).toHaveLength(8890);
      expect(watch).toHaveBeenCalledTimes(3);
    } finally {
      watch.mockRestore();
    }
  });

  test("a long conversation is nowhere near the limits", () => {
    const template = '{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{{ "x" * 1000 }}{% endfor %}';
    expect(kindOf(template)).toBe("rendered 1000000");
  });
});

describe("a template cannot change what it is given", () => {
  test.each(["messages.append(1)", "messages.clear()", "{}.update(a=1)", "[].pop()", "{}.setdefault(1, 2)"])(
    "%s: security",
    (expression) => {
      expect(kindOf(`{% set x = ${expression} %}`)).toBe("security");
    },
  );

  test("and reaches nothing behind its values", () => {
    expect(kindOf('{{ "".__class__.__mro__ }}')).toBe("security");
    expect(kindOf('{{ messages["constructor"] }}{{ messages.constructor is defined }}')).toBe("rendered 5");
    expect(render('{{ {}.__proto__ is defined }}{{ {"__proto__": 1}["__proto__"] }}')).toBe("False1");
  });
});

describe("what is not supported says so", () => {
  test.each([
    '{% include "x" %}',
    "{% block a %}{% endblock %}",
    "{{ 1|pprint }}",
    '{{ "a".encode() }}',
    "{{ lipsum() }}",
  ])("%s: unsupported", (template) => {
    expect(kindOf(template)).toBe("unsupported");
  });

  test("the time is not read from the machine", () => {
    expect(kindOf('{{ strftime_now("%Y") }}')).toBe("no-clock");
  });
});
