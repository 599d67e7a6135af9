// JSON whose whole numbers keep all of their digits. A number of JavaScript has 53 bits, what a task is given may have more:
// those that would change are kept as text behind a NUL, which the server lets into no text of JSON.

import i18next from "i18next";

const MARK = "\u0000";
const SUSPECT = /(?:^|[\s:,[])-?\d{16}/; // a long number, or text that looks like one
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const WHOLE = /^-?\d{16,}$/;
const MARKED = /"\\u0000(-?\d{16,})"/g;

export function readJson(text: string): unknown {
  const value: unknown = JSON.parse(text); // also says what is wrong with the text
  if (!SUSPECT.test(text)) return value;
  return JSON.parse(text.replace(TOKEN, (token) => (WHOLE.test(token) && !Number.isSafeInteger(Number(token)) ? `"\\u0000${token}"` : token)));
}

export function writeJson(value: unknown, indent?: number): string {
  return (JSON.stringify(value, null, indent) ?? "null").replace(MARKED, "$1");
}

/** Whether it is a text, and not a long number that is kept as one. */
export const isText = (value: unknown): value is string => typeof value === "string" && !value.startsWith(MARK);

/** What somebody typed, or what is wrong with it. */
export function parse(text: string): { value: unknown; problem: string | null } {
  try {
    return { value: text.trim() ? readJson(text) : null, problem: null };
  } catch (error) {
    return { value: null, problem: tellPlace(error instanceof Error ? error.message : String(error)) };
  }
}

/** Browsers say it in English, and mostly where: elsewhere the place is told alone. */
function tellPlace(said: string): string {
  if (i18next.language === "en") return said;
  const [, line, column] = /line (\d+) column (\d+)/.exec(said) ?? [];
  return line === undefined ? i18next.t("common.no_json") : i18next.t("common.no_json_at", { line, column });
}
