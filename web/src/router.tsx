// Where the console is stands behind the # of the address, so that every path a proxy adds in front is fine, and the
// server never sees the code of a login link.

import { type AnchorHTMLAttributes, type ReactNode, useSyncExternalStore } from "react";

export interface Place {
  path: string;
  query: URLSearchParams;
}

let known = window.location.hash;
let place = readPlace();

function readPlace(): Place {
  const text = known.slice(1) || "/";
  const mark = text.indexOf("?");
  return {
    path: mark < 0 ? text : text.slice(0, mark),
    query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
  };
}

const listeners = new Set<() => void>();

function arrive(): void {
  known = window.location.hash;
  place = readPlace();
  listeners.forEach((listener) => listener());
}

type Guard = () => Promise<boolean>;
let guard: Guard | null = null;

/** Have `ask` allow it before this page is left. Returns what ends that. */
export function guardPlace(ask: Guard): () => void {
  guard = ask;
  return () => {
    if (guard === ask) guard = null;
  };
}

export const mayLeave: Guard = async () => guard === null || guard();

window.addEventListener("beforeunload", (event) => {
  if (guard) event.preventDefault(); // the browser asks
});
window.addEventListener("hashchange", () => {
  const wanted = window.location.hash;
  if (guard === null || wanted === known) return arrive();
  window.history.replaceState(null, "", known || "#/"); // stay until it is allowed
  void mayLeave().then((may) => {
    if (!may) return;
    guard = null;
    window.location.hash = wanted;
  });
});

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, () => place);
}

export function go(to: string, { replace = false } = {}): void {
  if (replace) {
    window.history.replaceState(null, "", `#${to}`);
    arrive();
  } else {
    window.location.hash = to;
  }
}

/** The query of this page, and a way to change some of it; an empty value leaves the name out. */
export function useQueryState(): [URLSearchParams, (changes: Record<string, string | string[] | null>) => void] {
  const { path, query } = usePlace();
  const change = (changes: Record<string, string | string[] | null>): void => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      for (const one of Array.isArray(value) ? value : [value]) if (one) next.append(name, one);
    }
    const text = next.toString();
    go(text ? `${path}?${text}` : path, { replace: true });
  };
  return [query, change];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string; children?: ReactNode };

export function Link({ to, children, ...rest }: LinkProps): ReactNode {
  return (
    <a href={`#${to}`} {...rest}>
      {children}
    </a>
  );
}
