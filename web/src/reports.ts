// What happened, from the sums that the leader keeps: for the page of reports and for the overview.

import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { get } from "./api";
import type { Bars } from "./components/BarChart";
import { language } from "./i18n";
import { useLive } from "./live";
import type { Report, ReportFigures } from "./types";

const HOUR_MS = 3_600_000;
const REFRESH_MS = 30_000;
const SOON_MS = 10_000;
const SMALL = 100; // items: a report of so few costs next to nothing, and changes soonest
export const RANGES = { "24h": 24, "7d": 7 * 24, "30d": 30 * 24, "365d": 365 * 24 } as const; // hours
export type Range = keyof typeof RANGES;
export const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export interface Wish {
  range: Range;
  zone: string;
  type: string;
}

export function asked({ range, zone, type }: Wish): Record<string, string> {
  const by = range === "24h" ? "hour" : "day";
  const hours = RANGES[range] - (by === "day" ? 24 : 1); // a report begins with a whole day or hour, and that of now is one of them
  const from = new Date(Date.now() - hours * HOUR_MS).toISOString();
  return { from, by, zone, ...(type ? { task_type: type } : {}) };
}

export function useReport(wish: Wish, every = REFRESH_MS): UseQueryResult<Report> {
  const { state } = useLive();
  return useQuery({
    queryKey: ["report", wish.range, wish.zone, wish.type], // not at every event: sums are made every few seconds
    queryFn: ({ signal }) => get<Report>("/reports", asked(wish), signal),
    refetchInterval: ({ state: { data } }) => (state === "paused" ? false : data && data.items.length > SMALL ? every : Math.min(every, SOON_MS)),
  });
}

export const ended = (one: ReportFigures): number => one.succeeded + one.failed + one.timed_out + one.cancelled;
export const failures = (one: ReportFigures): number => one.failed + one.timed_out;

/** The name of the hour or day that begins then. */
export function title(ms: number, by: string, zone: string): string {
  const parts: Intl.DateTimeFormatOptions = by === "day" ? { month: "short", day: "numeric" } : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const noon = by === "day" ? 12 * HOUR_MS : 0; // a day may begin an hour early or late
  return new Intl.DateTimeFormat(language(), { ...parts, timeZone: zone }).format(ms + noon);
}

/** The same for an hour of the last day. */
export const hour = (ms: number): string => new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: LOCAL }).format(ms);

/** Sums of all types by piece of time, also of those in which nothing happened. */
export function gather(report: Report): Bars {
  const step = report.by === "hour" ? HOUR_MS : 24 * HOUR_MS;
  const sums = new Map<number, { ended: number; failed: number }>();
  for (const item of report.items) {
    const start = new Date(item.start).getTime();
    const sum = sums.get(start) ?? { ended: 0, failed: 0 };
    sums.set(start, { ended: sum.ended + ended(item), failed: sum.failed + failures(item) });
  }
  const known = [...sums.keys()].sort((a, b) => a - b);
  let at = new Date(report.begin).getTime();
  const end = new Date(report.end).getTime();
  while (at < end) {
    const near = known.find((start) => Math.abs(start - at) <= step / 8); // a day has 23 hours when the clocks change
    at = near ?? at;
    if (near === undefined) sums.set(at, { ended: 0, failed: 0 });
    at += step;
  }
  const starts = [...sums.keys()].sort((a, b) => a - b);
  return {
    starts: starts.map((start) => start / 1000),
    ended: starts.map((start) => sums.get(start)?.ended ?? 0),
    failed: starts.map((start) => sums.get(start)?.failed ?? 0),
  };
}
