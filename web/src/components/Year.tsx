// A year of a calendar, as twelve months of days. By keyboard it is one stop: arrows go from day to day.

import { ActionIcon, Group, Text, Title } from "@mantine/core";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Days, dayAt, daysOf, daysOfYear, FIRST_YEAR, LAST_YEAR, type Parts, plus, weekdayOf, yearOf } from "../days";
import { useTimeKind } from "../format";
import { language } from "../i18n";
import { useQueryState } from "../router";

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 };
const A_MONDAY = "2024-01-01";

/** A day as the visitor says it, whatever zone they are in: it has none of its own. */
export const sayDay = (day: string, how: Intl.DateTimeFormatOptions): string => new Intl.DateTimeFormat(language(), { ...how, timeZone: "UTC" }).format(new Date(day));
export const sayWeekday = (weekday: number, how: "short" | "narrow"): string => sayDay(plus(A_MONDAY, weekday - 1), { weekday: how });

/** The zone by which moments are shown; undefined: that of the browser. */
export const useZone = (): string | undefined => (useTimeKind() === "utc" ? "UTC" : undefined);

/** The year that the address names: this one by default, or the nearest that the calendar knows. */
export function useYear([first, last]: readonly number[]): [number, (year: number) => void] {
  const [query, change] = useQueryState();
  const asked = Number(query.get("year"));
  const isAsked = Number.isInteger(asked) && asked >= FIRST_YEAR && asked <= LAST_YEAR;
  const usual = Math.min(Math.max(new Date().getFullYear(), first ?? FIRST_YEAR), last ?? LAST_YEAR);
  return [isAsked ? asked : usual, (year) => change({ year: String(year) })];
}

export function YearSwitch({ year, onChange }: { year: number; onChange: (year: number) => void }): ReactNode {
  const { t } = useTranslation();
  return (
    <Group gap="xs" wrap="nowrap">
      <ActionIcon variant="default" disabled={year <= FIRST_YEAR} onClick={() => onChange(year - 1)} aria-label={t("calendars.previous")}><ChevronLeft size={16} /></ActionIcon>
      <Text fw={600} className="number" aria-live="polite">{year}</Text>
      <ActionIcon variant="default" disabled={year >= LAST_YEAR} onClick={() => onChange(year + 1)} aria-label={t("calendars.following")}><ChevronRight size={16} /></ActionIcon>
    </Group>
  );
}

interface Props {
  parts: Parts;
  year: number;
  onToggle?: (day: string) => void; // who may not is shown the same
}

export function Year({ parts, year, onToggle }: Props): ReactNode {
  const { t } = useTranslation();
  const zone = useZone();
  const days = useMemo(() => daysOf(parts, zone), [parts, zone]);
  const months = useMemo(() => byMonth(year), [year]);
  const today = dayAt(Date.now(), zone);
  const [last, setLast] = useState(today);
  const stop = yearOf(last) === year ? last : `${year}-01-01`;
  const move = (event: KeyboardEvent<HTMLElement>): void => {
    const by = STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.currentTarget.querySelector<HTMLElement>(`button[data-day="${plus(stop, by)}"]`)?.focus();
  };
  if (!days.knows(year)) return <Text size="sm" c="dimmed">{t("calendars.unknown_year", { year, first: parts.years[0], last: parts.years[1] })}</Text>;
  return (
    <>
      <div className="year" data-testid="year" onKeyDown={move} onFocus={({ target }) => setLast(target.dataset.day ?? stop)}>
        {months.map((month) => (
          <section key={month[0]}>
            <Title order={3} size="h6" mb={4}>{sayDay(month[0] ?? "", { month: "long" })}</Title>
            <div className="month">
              {[1, 2, 3, 4, 5, 6, 7].map((weekday) => <span key={weekday} className="month-weekday" aria-hidden>{sayWeekday(weekday, "narrow")}</span>)}
              {month.map((day) => <Day key={day} day={day} days={days} isToday={day === today} isStop={day === stop} onToggle={onToggle} />)}
            </div>
          </section>
        ))}
      </div>
      <Legend days={days} year={year} />
    </>
  );
}

function byMonth(year: number): string[][] {
  const months = Array.from({ length: 12 }, (): string[] => []);
  for (const day of daysOfYear(year)) months[Number(day.slice(5, 7)) - 1]?.push(day);
  return months;
}

interface DayProps {
  day: string;
  days: Days;
  isToday: boolean;
  isStop: boolean; // of the keyboard
  onToggle: Props["onToggle"];
}

function Day({ day, days, isToday, isStop, onToggle }: DayProps): ReactNode {
  const { t } = useTranslation();
  const [isIn, isOther, isTouched] = [days.isIn(day), days.isOther(day), days.isTouched(day)];
  const remarks = [!onToggle && isIn && t("calendars.is_in"), isOther && t("calendars.other"), isTouched && t("calendars.touched")].filter(Boolean);
  const label = [sayDay(day, { dateStyle: "full" }), ...remarks].join(" · ");
  const look = {
    className: `day${isIn ? " day-in" : ""}${isOther ? " day-other" : ""}${isTouched ? " day-touched" : ""}${isToday ? " day-today" : ""}`,
    style: day.endsWith("-01") ? { gridColumnStart: weekdayOf(day) } : undefined,
    title: label,
    "data-day": day,
    "aria-current": isToday ? ("date" as const) : undefined,
  };
  const number = Number(day.slice(8));
  if (onToggle) return <button type="button" {...look} aria-pressed={isIn} aria-label={label} tabIndex={isStop ? 0 : -1} onClick={() => onToggle(day)}>{number}</button>;
  return remarks.length > 0 ? <span {...look} role="img" aria-label={label}>{number}</span> : <span {...look}>{number}</span>;
}

function Legend({ days, year }: { days: Days; year: number }): ReactNode {
  const { t } = useTranslation();
  const all = daysOfYear(year);
  return (
    <Group gap="md" mt="sm">
      <Text size="xs"><span className="day-key day-in" /> {t("calendars.is_in")}</Text>
      {all.some(days.isOther) && <Text size="xs"><span className="day-key day-other" /> {t("calendars.other")}</Text>}
      {all.some(days.isTouched) && <Text size="xs"><span className="day-key day-touched" /> {t("calendars.touched")}</Text>}
    </Group>
  );
}
