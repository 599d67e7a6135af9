import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";
import { language } from "../i18n";
import { samples } from "../samples";

const HEIGHT = 220;
const SHOWN_SECONDS = 300;

function clock(seconds: number): string {
  return new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(seconds * 1000);
}

export default function RateChart({ version }: { version: number }): ReactNode {
  const { t, i18n } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const isDark = useComputedColorScheme("light") === "dark";

  useEffect(() => {
    const parent = box.current;
    if (parent === null) return;
    const line = isDark ? "#ffffff22" : "#00000014";
    const axis = { stroke: isDark ? "#c9c9c9" : "#495057", grid: { stroke: line }, ticks: { stroke: line } };
    const made = new uPlot(
      {
        width: parent.clientWidth,
        height: HEIGHT,
        cursor: { y: false },
        legend: { live: false },
        scales: { x: { range: (_, __, max) => [max - SHOWN_SECONDS, max] }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 44 }],
        series: [
          { label: t("overview.time") },
          { label: t("overview.created"), stroke: "#4c6ef5", width: 2 },
          { label: t("overview.completed"), stroke: "#12b886", width: 2, fill: "#12b88622" },
          { label: t("overview.failed"), stroke: "#fa5252", width: 2 },
        ],
      },
      samples,
      parent,
    );
    chart.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [isDark, t, i18n.language]);

  useEffect(() => chart.current?.setData(samples), [version]);

  return <div ref={box} role="img" aria-label={t("overview.rates")} />;
}
