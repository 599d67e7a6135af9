// Times, durations and numbers, in the language and the kind of time that the visitor chose.

import { type ReactNode, useEffect, useState, useSyncExternalStore } from "react";
import { language } from "./i18n";

export type TimeKind = "local" | "utc" | "relative";
const KEPT = "rota-time";
const listeners = new Set<() => void>();
let kind: TimeKind = readKind();

function readKind(): TimeKind {
  const kept = window.localStorage.getItem(KEPT);
  return kept === "utc" || kept === "relative" ? kept : "local";
}

export function chooseTime(chosen: TimeKind): void {
  kind = chosen;
  window.localStorage.setItem(KEPT, chosen);
  listeners.forEach((listener) => listener());
}

export function useTimeKind(): TimeKind {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => kind,
  );
}

/** The present moment, told anew every so often. */
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export function absolute(iso: string, zone?: string): string {
  return new Intl.DateTimeFormat(language() === "en" ? "sv-SE" : language(), {
    // 2026-01-31 09:00:00 rather than the order of one English-speaking country
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZone: zone,
  }).format(new Date(iso));
}

const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

export function relative(iso: string, now: number): string {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  const [unit, size] = UNITS.find(([, least]) => Math.abs(seconds) >= least) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(language(), { numeric: unit === "day" ? "always" : "auto" }).format(Math.trunc(seconds / size), unit); // never "in 60 minutes", nor "tomorrow" of what is 32 hours away
}

const SPANS = {
  en: { ms: "ms", s: "s", min: "min", h: "h", d: "d" },
  "zh-CN": { ms: "毫秒", s: "秒", min: "分钟", h: "小时", d: "天" },
} as const;

export function duration(seconds: number): string {
  const sign = seconds < 0 ? "−" : "";
  const all = Math.abs(seconds);
  const unit = SPANS[language()];
  if (all > 0 && all < 0.9995) return `${sign}${Math.round(all * 1000)} ${unit.ms}`;
  if (all < 60) return `${sign}${Number(all.toFixed(all < 10 ? 2 : 1))} ${unit.s}`;
  if (all < 3600) return sign + parts(all, 60, unit.min, unit.s);
  if (all < 86_400) return sign + parts(all / 60, 60, unit.h, unit.min);
  return sign + parts(all / 3600, 24, unit.d, unit.h);
}

function parts(value: number, size: number, large: string, small: string): string {
  const rest = Math.floor(value % size);
  return `${Math.floor(value / size)} ${large}${rest > 0 ? ` ${rest} ${small}` : ""}`;
}

/** What was measured: a thing that took no time at all took less than can be told. */
export const taken = (seconds: number): string => (seconds < 0.0005 ? `< 1 ${SPANS[language()].ms}` : duration(seconds));

export const between = (from: string, to: string | number): number =>
  ((typeof to === "number" ? to : new Date(to).getTime()) - new Date(from).getTime()) / 1000;

export const count = (value: number): string => new Intl.NumberFormat(language()).format(value);
/** With all of its digits: a limit is not measured. */
export const exact = (value: number): string => new Intl.NumberFormat(language(), { maximumFractionDigits: 20 }).format(value);
export function rate(value: number): string {
  const format = new Intl.NumberFormat(language(), { maximumFractionDigits: value < 10 ? 1 : 0 });
  return value > 0 && value < 0.05 ? `< ${format.format(0.1)}` : format.format(value); // little is not nothing
}
export const percent = (value: number): string =>
  new Intl.NumberFormat(language(), { style: "percent", maximumFractionDigits: 1 }).format(value);

export function Time({ at, zone }: { at: string | null; zone?: string }): ReactNode {
  const chosen = useTimeKind();
  if (at === null) return "–";
  const title = `${absolute(at)}\n${at}`;
  return (
    <time dateTime={at} title={title} style={{ whiteSpace: "nowrap" }}>
      {chosen === "relative" && !zone ? <Relative at={at} /> : absolute(at, zone ?? (chosen === "utc" ? "UTC" : undefined))}
      {chosen === "utc" && !zone ? "Z" : ""}
    </time>
  );
}

export function Relative({ at }: { at: string }): ReactNode {
  return relative(at, useNow());
}

/** How long something has gone on, counting while it does. */
export function Elapsed({ from, to }: { from: string | null; to: string | null }): ReactNode {
  if (from === null) return "–";
  return to === null ? <Counting from={from} /> : taken(between(from, to));
}

function Counting({ from }: { from: string }): ReactNode {
  return duration(Math.max(between(from, useNow()), 0));
}
