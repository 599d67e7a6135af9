// What the lines of a record say beyond their words: how grave each is, and whether it is all that the task wrote.

import type { LogLine } from "./types";

export const GRAVITIES = ["all", "warnings", "errors"] as const;
export type Gravity = (typeof GRAVITIES)[number];

// The words of `domain/log.py` and `executors/local/lines.py`: the server says it in a line of the record alone.
const MARKER = /^(?:what it prints beyond|more than) (\d+) bytes (?:is dropped|of log: further lines are dropped)$/;

/** How many bytes were kept of what wrote more; null: nothing was dropped. */
export function keptOf(lines: readonly LogLine[]): number | null {
  for (const { kind, message } of lines) {
    const found = kind === "STATE_CHANGE" ? null : MARKER.exec(message);
    if (found) return Number(found[1]);
  }
  return null;
}

export function isAsGrave(line: LogLine, wanted: Gravity): boolean {
  if (wanted === "all" || line.kind === "ERROR") return true;
  return wanted === "warnings" && (line.kind === "WARNING" || line.kind === "RETRY");
}

/**
 * The record stands by transitions, and what a task writes while it is being cancelled belongs to the one before: a
 * transition goes above the lines that are later. Only upwards, and only past lines, which another clock may have timed.
 */
export function inOrder(lines: readonly LogLine[]): LogLine[] {
  const ordered: LogLine[] = [];
  for (const line of lines) {
    let place = ordered.length;
    while (line.to_status !== null && isLater(ordered[place - 1], line)) place -= 1;
    ordered.splice(place, 0, line);
  }
  return ordered;
}

const isLater = (before: LogLine | undefined, line: LogLine): boolean =>
  before !== undefined && before.to_status === null && Date.parse(before.at) > Date.parse(line.at);
