// Lists by keyboard, on every page that has one: J and K go from row to row, X chooses, / searches. Enter opens, as the
// link of the row has the focus.

import { useHotkeys } from "@mantine/hooks";

const ROWS = "main tbody tr:has(a[href])";

function rows(): HTMLElement[] {
  if (document.querySelector("[role=dialog]")) return []; // what lies behind it is not to be reached
  return [...document.querySelectorAll<HTMLElement>(ROWS)];
}

function step(by: 1 | -1): void {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next]?.querySelector<HTMLElement>("a[href]")?.focus();
}

function choose(): void {
  const row = rows().find((one) => one.contains(document.activeElement));
  row?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
}

function search(event: KeyboardEvent): void {
  const field = document.querySelector<HTMLInputElement>("main input[data-search]");
  if (!field || document.querySelector("[role=dialog]")) return;
  event.preventDefault(); // the stroke itself is not searched for
  field.focus();
}

export function useListKeys(): void {
  useHotkeys([
    ["j", () => step(1)],
    ["k", () => step(-1)],
    ["x", choose],
    ["/", search, { preventDefault: false }],
  ]);
}
