import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";
import { count } from "../format";

const HEIGHT = 240;
const WIDEST = 60; // pixels of a bar

export interface Bars {
  starts: number[]; // seconds
  ended: number[];
  failed: number[]; // a part of those
}

/** How many tasks ended in each piece of time, and how many of them did not succeed: the red part of each bar. */
export default function BarChart({ bars, name }: { bars: Bars; name: (seconds: number) => string }): ReactNode {
  const { t, i18n } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const isDark = useComputedColorScheme("light") === "dark";

  useEffect(() => {
    const parent = box.current;
    if (parent === null) return;
    const line = isDark ? "#ffffff22" : "#00000014";
    const axis = { stroke: isDark ? "#c9c9c9" : "#495057", grid: { stroke: line }, ticks: { stroke: line } };
    const paths = uPlot.paths.bars?.({ size: [0.7, WIDEST] });
    const value = (_: uPlot, number: number | null): string => (number === null ? "–" : count(number));
    const { starts } = bars;
    const half = starts.length > 1 ? ((starts[1] ?? 0) - (starts[0] ?? 0)) / 2 : 43_200;
    const made = new uPlot(
      {
        width: parent.clientWidth,
        height: HEIGHT,
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { range: () => [(starts[0] ?? 0) - half, (starts.at(-1) ?? 0) + half] },
          y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] },
        },
        axes: [
          { ...axis, grid: { show: false }, space: 90, splits: () => marks(starts, parent.clientWidth), values: (_, ticks) => ticks.map(name) },
          { ...axis, size: 60, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : "")) },
        ],
        series: [
          { label: t("reports.time"), value: (_, seconds: number | null) => (seconds === null ? "–" : name(seconds)) },
          { label: t("reports.ended"), stroke: "#748ffc", fill: "#748ffcaa", width: 0, paths, value, points: { show: false } },
          { label: t("reports.failed"), stroke: "#fa5252", fill: "#fa5252", width: 0, paths, value, points: { show: false } },
        ],
      },
      [starts, bars.ended, bars.failed],
      parent,
    );
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [bars, name, isDark, t, i18n.language]);

  return <div ref={box} role="img" aria-label={t("reports.chart")} />;
}

/** Those of the starts that there is room to name. */
function marks(starts: number[], width: number): number[] {
  const every = Math.max(1, Math.ceil(starts.length / Math.max(1, Math.floor(width / 100))));
  return starts.filter((_, place) => place % every === 0);
}
