// Python's `datetime.strftime` in the C locale, of a local time without a zone, as glibc writes it.

import { limitError, valueError } from "../../python-semantics/index.ts";

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = "January February March April May June July August September October November December".split(" ");
const dayMs = 86_400_000;

/** A time whose parts are read as if in UTC, so that the machine's zone has no effect. */
export type LocalTime = { readonly date: Date; readonly microseconds: number };

/** Reads `YYYY-MM-DDTHH:MM:SS[.ffffff]`. Throws a "ValueError" for anything else. */
export function parseLocalTime(text: string): LocalTime {
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/.exec(text);
  if (match === null) throw valueError(`"${text}" is not a local time like 2026-01-31T12:00:00`);
  const [year, month, day, hour, minute, second] = match
    .slice(1, 7)
    .map((part: string | undefined) => Number(part ?? 0));
  const date = new Date(Date.UTC(year!, month! - 1, day, hour, minute, second));
  return { date, microseconds: Number((match[7] ?? "").padEnd(6, "0")) };
}

/** The directives `%a` to `%Z`; glibc's flags `-`, `_`, `0`, `^` change how a number or name is padded. */
export function formatTime(time: LocalTime, format: string): string {
  return format.replace(
    /%([-_0^#]?)(\d*)[EO]?([a-zA-Z%+])?/g,
    (whole, flag: string, width: string, directive?: string) => {
      if (directive === undefined) return whole;
      const isKnown = Object.hasOwn(directives, directive) || Object.hasOwn(composed, directive);
      if (flag === "" && width === "" && !isKnown) return whole;
      return pad(partOf(time, directive), flag, Number(width));
    },
  );
}

/** A name, or a number with the width that it is padded to. */
type Part = string | readonly [value: number, width?: number, fill?: "0" | " "];

function pad(part: Part, flag: string, width: number): string {
  if (width > 1000) throw limitError("it pads a date to more than 1000 characters");
  const [value, ownWidth = 2, ownFill = "0"] = typeof part === "string" ? [part, 0, ""] : part;
  const text = String(value);
  if (flag === "^") return text.toUpperCase();
  if (flag === "-" || ownFill === "") return text.padStart(width);
  return text.padStart(Math.max(ownWidth, width), flag === "_" ? " " : flag === "0" ? "0" : ownFill);
}

function partOf(time: LocalTime, directive: string): Part {
  const whole = composed[directive];
  if (whole !== undefined) return formatTime(time, whole);
  const { date, microseconds } = time;
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  const [hour, weekday, yearDay] = [date.getUTCHours(), date.getUTCDay(), dayOfYear(date)];
  return directives[directive]?.({ date, microseconds, year, month, day, hour, weekday, yearDay }) ?? `%${directive}`;
}

/** Directives that stand for a format. */
const composed: Readonly<Record<string, string>> = {
  c: "%a %b %e %H:%M:%S %Y",
  D: "%m/%d/%y",
  x: "%m/%d/%y",
  F: "%Y-%m-%d",
  r: "%I:%M:%S %p",
  R: "%H:%M",
  T: "%H:%M:%S",
  X: "%H:%M:%S",
};

/** Months and days of the year count from 0, days of the week from Sunday. */
type Parts = LocalTime & {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly weekday: number;
  readonly yearDay: number;
};

const hour12 = (hour: number): number => (hour % 12 === 0 ? 12 : hour % 12);

const directives: Readonly<Record<string, (parts: Parts) => Part>> = {
  a: ({ weekday }) => days[weekday]!.slice(0, 3),
  A: ({ weekday }) => days[weekday]!,
  b: ({ month }) => months[month]!.slice(0, 3),
  B: ({ month }) => months[month]!,
  C: ({ year }) => [Math.floor(year / 100)],
  d: ({ day }) => [day],
  e: ({ day }) => [day, 2, " "],
  f: ({ microseconds }) => [microseconds, 6],
  g: ({ date }) => [isoWeek(date).year % 100],
  G: ({ date }) => [isoWeek(date).year, 4],
  h: ({ month }) => months[month]!.slice(0, 3),
  H: ({ hour }) => [hour],
  I: ({ hour }) => [hour12(hour)],
  j: ({ yearDay }) => [yearDay + 1, 3],
  k: ({ hour }) => [hour, 2, " "],
  l: ({ hour }) => [hour12(hour), 2, " "],
  m: ({ month }) => [month + 1],
  M: ({ date }) => [date.getUTCMinutes()],
  n: () => "\n",
  p: ({ hour }) => (hour < 12 ? "AM" : "PM"),
  P: ({ hour }) => (hour < 12 ? "am" : "pm"),
  s: ({ date }) => String(Math.floor(date.getTime() / 1000)),
  S: ({ date }) => [date.getUTCSeconds()],
  t: () => "\t",
  u: ({ weekday }) => [weekday === 0 ? 7 : weekday, 1],
  U: ({ yearDay, weekday }) => [Math.floor((yearDay + 7 - weekday) / 7)],
  V: ({ date }) => [isoWeek(date).week],
  w: ({ weekday }) => [weekday, 1],
  W: ({ yearDay, weekday }) => [Math.floor((yearDay + 7 - ((weekday + 6) % 7)) / 7)],
  y: ({ year }) => [year % 100],
  Y: ({ year }) => [year, 1],
  // A time without a zone has neither offset nor name.
  z: () => "",
  Z: () => "",
  "%": () => "%",
};

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / dayMs);
}

/** Weeks begin on Monday; the first one holds the year's first Thursday. */
function isoWeek(date: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(date.getTime() + (4 - (date.getUTCDay() === 0 ? 7 : date.getUTCDay())) * dayMs);
  return { year: thursday.getUTCFullYear(), week: Math.floor(dayOfYear(thursday) / 7) + 1 };
}
