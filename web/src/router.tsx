// Where the console is stands behind the # of the address, so that every path a proxy adds in front is fine, and the
// server never sees the code of a login link.

import { type AnchorHTMLAttributes, type ReactNode, useSyncExternalStore } from "react";

export interface Place {
  path: string;
  query: URLSearchParams;
}

let known = "";
let place: Place = { path: "/", query: new URLSearchParams() };

export function currentPlace(): Place {
  const text = window.location.hash.slice(1) || "/";
  if (text !== known) {
    known = text;
    const mark = text.indexOf("?");
    place = {
      path: mark < 0 ? text : text.slice(0, mark),
      query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
    };
  }
  return place;
}

const listeners = new Set<() => void>();
window.addEventListener("hashchange", () => listeners.forEach((listener) => listener()));

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, currentPlace);
}

export function go(to: string, { replace = false } = {}): void {
  if (replace) {
    window.history.replaceState(null, "", `#${to}`);
    listeners.forEach((listener) => listener());
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
