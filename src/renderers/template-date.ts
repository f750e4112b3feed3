// Dates as chat templates write them with `strftime_now`, in English whatever the locale.

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `now` is ISO without a zone. "iso": `2026-01-15`; "day month year": `15 Jan 2026`. */
export function templateDate(now: string, layout: "iso" | "day month year"): string {
  const date = now.slice(0, 10);
  if (layout === "iso") return date;
  const [year, month, day] = date.split("-");
  return `${day} ${months[Number(month) - 1]} ${year}`;
}
