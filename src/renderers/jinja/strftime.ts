// Python's `datetime.strftime` in the C locale, of a local time without a zone, as glibc writes it.

import { limitError, valueError } from "../../python-semantics/index.ts";

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const dayMs = 86_400_000;

/** A time whose parts are read as if in UTC, so that no zone of the machine comes in. */
export type LocalTime = { readonly date: Date; readonly microseconds: number };

/** Reads `YYYY-MM-DDTHH:MM:SS[.ffffff]`. Throws a "ValueError" for anything else. */
export function parseLocalTime(text: string): LocalTime {
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?$/.exec(text);
  if (match === null) throw valueError(`"${text}" is no local time like 2026-01-31T12:00:00`);
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
      if (directive === undefined || (flag === "" && width === "" && !isKnown(directive))) return whole;
      return pad(directiveText(time, directive), { flag, width: Number(width) });
    },
  );
}

type Part = { readonly text: string; readonly width: number; readonly fill: "0" | " " | "" };

const number = (value: number, width = 2, fill: "0" | " " = "0"): Part => ({ text: String(value), width, fill });
const word = (text: string): Part => ({ text, width: 0, fill: "" });

function pad({ text, width, fill }: Part, options: { readonly flag: string; readonly width: number }): string {
  if (options.width > 1000) throw limitError("it pads a date to more than 1000 characters");
  if (options.flag === "^") return text.toUpperCase();
  if (options.flag === "-" || fill === "") return text.padStart(options.width);
  const padding = options.flag === "_" ? " " : options.flag === "0" ? "0" : fill;
  return text.padStart(Math.max(width, options.width), padding);
}

function isKnown(directive: string): boolean {
  return "aAbBcCdDeFfgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%".includes(directive);
}

function directiveText(time: LocalTime, directive: string): Part {
  const { date } = time;
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  const [hour, weekday, yearDay] = [date.getUTCHours(), date.getUTCDay(), dayOfYear(date)];
  const composed = (format: string): Part => word(formatTime(time, format));
  switch (directive) {
    case "a":
      return word(days[weekday]!.slice(0, 3));
    case "A":
      return word(days[weekday]!);
    case "b":
    case "h":
      return word(months[month]!.slice(0, 3));
    case "B":
      return word(months[month]!);
    case "c":
      return composed("%a %b %e %H:%M:%S %Y");
    case "C":
      return number(Math.floor(year / 100));
    case "d":
      return number(day);
    case "D":
    case "x":
      return composed("%m/%d/%y");
    case "e":
      return number(day, 2, " ");
    case "F":
      return composed("%Y-%m-%d");
    case "f":
      return number(time.microseconds, 6);
    case "g":
      return number(isoWeek(date).year % 100);
    case "G":
      return number(isoWeek(date).year, 4);
    case "H":
      return number(hour);
    case "I":
      return number(hour % 12 === 0 ? 12 : hour % 12);
    case "j":
      return number(yearDay + 1, 3);
    case "k":
      return number(hour, 2, " ");
    case "l":
      return number(hour % 12 === 0 ? 12 : hour % 12, 2, " ");
    case "m":
      return number(month + 1);
    case "M":
      return number(date.getUTCMinutes());
    case "n":
      return word("\n");
    case "p":
      return word(hour < 12 ? "AM" : "PM");
    case "P":
      return word(hour < 12 ? "am" : "pm");
    case "r":
      return composed("%I:%M:%S %p");
    case "R":
      return composed("%H:%M");
    case "s":
      return word(String(Math.floor(date.getTime() / 1000)));
    case "S":
      return number(date.getUTCSeconds());
    case "t":
      return word("\t");
    case "T":
    case "X":
      return composed("%H:%M:%S");
    case "u":
      return number(weekday === 0 ? 7 : weekday, 1);
    case "U":
      return number(Math.floor((yearDay + 7 - weekday) / 7));
    case "V":
      return number(isoWeek(date).week);
    case "w":
      return number(weekday, 1);
    case "W":
      return number(Math.floor((yearDay + 7 - ((weekday + 6) % 7)) / 7));
    case "y":
      return number(year % 100);
    case "Y":
      return number(year, 1);
    case "z":
    case "Z":
      // A time without a zone has neither.
      return word("");
    case "%":
      return word("%");
    default:
      return word(`%${directive}`);
  }
}

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / dayMs);
}

/** Weeks begin on Monday; the first one holds the year's first Thursday. */
function isoWeek(date: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(date.getTime() + (4 - (date.getUTCDay() === 0 ? 7 : date.getUTCDay())) * dayMs);
  return { year: thursday.getUTCFullYear(), week: Math.floor(dayOfYear(thursday) / 7) + 1 };
}
