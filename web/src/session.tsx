// Who is logged in. The session itself is in a cookie that no script can read.

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError, onSessionOver, request } from "./api";
import { go, usePlace } from "./router";
import type { Role, Session } from "./types";

interface Held {
  session: Session | null | undefined; // undefined: not known yet
  error: unknown;
  refused: unknown; // why a login link was not taken
  logIn: (token: string) => Promise<void>;
  logOut: () => Promise<void>;
  can: (role: Role) => boolean;
  again: () => void;
}

const ORDER: readonly Role[] = ["viewer", "operator", "admin"];
const Context = createContext<Held | null>(null);

export function SessionProvider({ children }: { children: ReactNode }): ReactNode {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [error, setError] = useState<unknown>(null);
  const [refused, setRefused] = useState<unknown>(null);
  const isBegun = useRef(false);
  const { path, query } = usePlace();
  const queries = useQueryClient();

  const again = useCallback(() => {
    setError(null);
    request<Session>("GET", "session").then(setSession, (problem: unknown) => {
      if (problem instanceof ApiError && problem.isOver) setSession(null);
      else setError(problem);
    });
  }, []);

  const enter = useCallback(
    async (proof: { token: string } | { code: string }) => {
      setRefused(null);
      const entered = await request<Session>("POST", "login", proof);
      queries.clear(); // it may be somebody else
      setSession(entered);
    },
    [queries],
  );

  useEffect(() => {
    const code = path === "/login" ? query.get("code") : null;
    if (code !== null) {
      setSession(undefined); // nothing is drawn for whoever was there before
      go("/", { replace: true }); // it is good once, and used up whoever is there
      enter({ code }).catch((problem: unknown) => {
        setRefused(problem);
        again();
      });
    } else if (!isBegun.current) {
      again();
    }
    isBegun.current = true;
  }, [path, query, enter, again]);

  const leave = useCallback(() => {
    queries.clear(); // whoever comes next sees what they may see
    setSession(null);
  }, [queries]);

  useEffect(() => onSessionOver(leave), [leave]);

  const held = useMemo<Held>(
    () => ({
      session,
      error,
      refused,
      again,
      logIn: (token) => enter({ token }),
      logOut: async () => {
        await request<void>("DELETE", "session").catch((problem: unknown) => {
          if (!(problem instanceof ApiError && problem.isOver)) throw problem;
        });
        leave();
      },
      can: (role) => session != null && ORDER.indexOf(session.role) >= ORDER.indexOf(role),
    }),
    [session, error, refused, again, enter, leave],
  );
  return <Context value={held}>{children}</Context>;
}

export function useSession(): Held {
  const held = use(Context);
  if (held === null) throw new Error("useSession is used outside of SessionProvider");
  return held;
}
