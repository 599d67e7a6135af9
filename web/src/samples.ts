// The rates that were seen since the console was opened, for the chart of the overview. What happened before is kept by
// the hour, in reports.

import type { Stats } from "./types";

const MOST = 200;
export const samples: [at: number[], created: number[], completed: number[], failed: number[]] = [[], [], [], []];

export function addSample(at: number, stats: Stats): void {
  const last = samples[0].at(-1);
  if (last !== undefined && at - last < 1) return;
  const values = [at, stats.created_per_second, stats.completed_per_second, stats.failed_per_second];
  samples.forEach((line, place) => {
    line.push(values[place] ?? 0);
    if (line.length > MOST) line.shift();
  });
}
