// Who is logged in. The session itself is in a cookie that no script can read.

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useCallback, useEffect, useMemo, useState } from "react";
import { ApiError, onSessionOver, request } from "./api";
import type { Role, Session } from "./types";

interface Held {
  session: Session | null | undefined; // undefined: not known yet
  error: unknown;
  logIn: (proof: { token: string } | { code: string }) => Promise<void>;
  logOut: () => Promise<void>;
  can: (role: Role) => boolean;
  again: () => void;
}

const ORDER: readonly Role[] = ["viewer", "operator", "admin"];
const Context = createContext<Held | null>(null);

export function SessionProvider({ children }: { children: ReactNode }): ReactNode {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [error, setError] = useState<unknown>(null);
  const queries = useQueryClient();

  const again = useCallback(() => {
    setError(null);
    request<Session>("GET", "session").then(setSession, (problem: unknown) => {
      if (problem instanceof ApiError && problem.isOver) setSession(null);
      else setError(problem);
    });
  }, []);

  useEffect(again, [again]);
  const leave = useCallback(() => {
    queries.clear(); // whoever comes next sees what they may see
    setSession(null);
  }, [queries]);

  useEffect(() => onSessionOver(leave), [leave]);

  const held = useMemo<Held>(
    () => ({
      session,
      error,
      again,
      logIn: async (proof) => setSession(await request<Session>("POST", "login", proof)),
      logOut: async () => {
        await request<void>("DELETE", "session").catch((problem: unknown) => {
          if (!(problem instanceof ApiError && problem.isOver)) throw problem;
        });
        leave();
      },
      can: (role) => session != null && ORDER.indexOf(session.role) >= ORDER.indexOf(role),
    }),
    [session, error, again, leave],
  );
  return <Context value={held}>{children}</Context>;
}

export function useSession(): Held {
  const held = use(Context);
  if (held === null) throw new Error("useSession is used outside of SessionProvider");
  return held;
}
