// Which days a calendar covers, and how it is changed to cover others. A day is written 2026-12-24 and is one of whatever
// zone a schedule has; what covers parts of days, by hours or from one instant to another, is told apart.

import type { Calendar } from "./types";

export type Parts = Pick<Calendar, "dates" | "windows" | "periods" | "business_days" | "years">;

export const FIRST_YEAR = 2000;
export const LAST_YEAR = 2099;
export const MOST_DAYS = 10_000; // that the server takes
const DAY_MS = 86_400_000;
const LOOKED_AHEAD = 800; // days: more than two years
const MIDNIGHT = "00:00:00";

export const yearOf = (day: string): number => Number(day.slice(0, 4));
export const weekdayOf = (day: string): number => new Date(day).getUTCDay() || 7; // 1: Monday
export const plus = (day: string, days: number): string => new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);

/** The day that a clock shows at a moment: that of a zone, or of the browser. */
export const dayAt = (at: number, zone?: string): string => new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format(at);

export function daysFrom(first: string, last: string): string[] {
  const days: string[] = [];
  for (let day = first; day <= last && days.length <= MOST_DAYS; day = plus(day, 1)) days.push(day);
  return days;
}

export const daysOfYear = (year: number): string[] => daysFrom(`${year}-01-01`, `${year}-12-31`);

export interface Days {
  knows: (year: number) => boolean; // in others nothing fires with it
  isIn: (day: string) => boolean; // the whole of it
  isOther: (day: string) => boolean; // than its week has it
  isTouched: (day: string) => boolean; // by hours of the week or by a period
}

export function daysOf({ dates, windows, periods, business_days: business, years }: Parts, zone?: string): Days {
  const [single, holidays, workdays] = [new Set(dates), new Set(business?.holidays), new Set(business?.workdays)];
  const isOfWeek = (day: string): boolean => business?.weekdays.includes(weekdayOf(day)) ?? false;
  const isIn = (day: string): boolean => single.has(day) || workdays.has(day) || (isOfWeek(day) && !holidays.has(day));
  const touched = new Set(windows.flatMap(weekdaysOf));
  const spans = periods.map(({ begin, end }) => [dayAt(Date.parse(begin), zone), dayAt(Date.parse(end) - 1, zone)] as const);
  const [first = FIRST_YEAR, last = LAST_YEAR] = years;
  return {
    knows: (year) => first <= year && year <= last,
    isIn,
    isOther: (day) => business !== null && isIn(day) !== isOfWeek(day),
    isTouched: (day) => touched.has(weekdayOf(day)) || spans.some(([begin, end]) => begin <= day && day <= end),
  };
}

/** Those on which some of a window lies: one over midnight goes on on the next day. */
function weekdaysOf({ weekdays, begin, end }: Calendar["windows"][number]): number[] {
  const isOverMidnight = begin >= end && end !== MIDNIGHT;
  return isOverMidnight ? weekdays.flatMap((one) => [one, (one % 7) + 1]) : weekdays;
}

/** The same with some days in it, or out of it. Where it has a week, what differs from that is noted; nothing else changes. */
export function withDays<P extends Parts>(parts: P, days: readonly string[], isWanted: boolean): P {
  const business = parts.business_days;
  const [dates, holidays, workdays] = [new Set(parts.dates), new Set(business?.holidays), new Set(business?.workdays)];
  const { isIn } = daysOf(parts);
  for (const day of days.filter((one) => isIn(one) !== isWanted)) {
    const isOfWeek = business?.weekdays.includes(weekdayOf(day)) ?? false;
    if (!isWanted) {
      dates.delete(day);
      workdays.delete(day);
      if (isOfWeek) holidays.add(day);
    } else if (isOfWeek) holidays.delete(day);
    else (business ? workdays : dates).add(day);
  }
  const changed = business && { ...business, holidays: [...holidays].sort(), workdays: [...workdays].sort() };
  return { ...parts, dates: [...dates].sort(), business_days: changed };
}

/** The first day from one on of which some is in it. */
export function nextDay(days: Days, from: string): string | undefined {
  return daysFrom(from, plus(from, LOOKED_AHEAD)).find((day) => days.knows(yearOf(day)) && (days.isIn(day) || days.isTouched(day)));
}
