// The colours that a program gave its words for a terminal (SGR). Everything else that a terminal would obey is left out.

import { visible } from "./text";

export interface Piece {
  text: string;
  look: string; // classes of style.css
}

const SGR = /\u001b\[([0-9;]*)m/g;
const MOST_PIECES = 500; // of one line: what comes after is drawn plainly
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

interface Look {
  color: string;
  isBold: boolean;
  isDim: boolean;
  isUnderlined: boolean;
}

const PLAIN: Look = { color: "", isBold: false, isDim: false, isUnderlined: false };

export function styled(text: string): Piece[] {
  if (!text.includes("\u001b[")) return [{ text: visible(text), look: "" }];
  const pieces: Piece[] = [];
  let look = PLAIN;
  let from = 0;
  const add = (until: number): void => {
    const shown = visible(text.slice(from, until));
    if (shown) pieces.push({ text: shown, look: classes(look) });
  };
  for (const found of text.matchAll(SGR)) {
    if (pieces.length >= MOST_PIECES) break;
    add(found.index);
    from = found.index + found[0].length;
    look = turn(look, (found[1] ?? "").split(";").map(Number));
  }
  add(text.length);
  return pieces;
}

function turn(look: Look, codes: readonly number[]): Look {
  let now = look;
  for (let place = 0; place < codes.length; place += 1) {
    const code = codes[place] ?? 0;
    if (code === 38 || code === 48) {
      const isIndexed = codes[place + 1] === 5;
      if (code === 38) now = { ...now, color: isIndexed ? named(codes[place + 2] ?? -1) : "" };
      place += isIndexed ? 2 : 4;
    } else {
      now = one(now, code);
    }
  }
  return now;
}

function one(look: Look, code: number): Look {
  if (code === 0) return PLAIN;
  if (code === 1) return { ...look, isBold: true };
  if (code === 2) return { ...look, isDim: true };
  if (code === 4) return { ...look, isUnderlined: true };
  if (code === 22) return { ...look, isBold: false, isDim: false };
  if (code === 24) return { ...look, isUnderlined: false };
  if (code === 39) return { ...look, color: "" };
  if (code >= 30 && code <= 37) return { ...look, color: named(code - 30) };
  if (code >= 90 && code <= 97) return { ...look, color: named(code - 90) };
  return look;
}

/** One of the eight colours, plain or bright. Black and white are the ink of the page, which is read on either ground. */
function named(place: number): string {
  const name = place < 16 ? NAMES[place % 8] : undefined;
  return name === undefined || name === "black" || name === "white" ? "" : name;
}

function classes({ color, isBold, isDim, isUnderlined }: Look): string {
  return [color && `ansi-${color}`, isBold && "ansi-bold", isDim && "log-dim", isUnderlined && "ansi-underlined"].filter(Boolean).join(" ");
}
