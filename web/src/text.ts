// What others wrote is shown as it is, harmlessly: nothing of it is markup, and what would be invisible is made visible.

import { writeJson } from "./json";

const ANSI = /\u001b\[[0-9;]*[A-Za-z]/g;
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000d\u000e-\u001f\u007f]/g;
// What turns the direction of the text around it, or hides in it.
const INVISIBLE = /[\u0080-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text
    .replace(ANSI, "")
    .replace(CONTROL, (found) => String.fromCharCode(found === "\u007f" ? 0x2421 : 0x2400 + found.charCodeAt(0)))
    .replace(INVISIBLE, (found) => `⟨U+${found.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

export function clip(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

export const oneLine = (text: string, most = 200): string => clip(visible(text.replace(/\s+/g, " ").trim()), most);

export const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The same value as Python spells it. */
export function python(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, one]) => `${JSON.stringify(key)}: ${python(one)}`)
      .join(", ")}}`;
  }
  return writeJson(value);
}

export function save(name: string, content: string, type = "text/plain"): void {
  saveBlob(name, new Blob([content], { type }));
}

export function saveBlob(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
