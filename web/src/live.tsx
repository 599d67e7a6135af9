// What happens on the cluster, as it happens: one stream for the whole console, which marks what is shown as out of date.
// It rests while the tab is hidden, and goes on after the last event that was seen.

import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useMemo, useRef, useState } from "react";
import { at } from "./api";
import { follow } from "./stream";
import type { Event } from "./types";

export type LiveState = "live" | "reconnecting" | "paused";

interface Live {
  state: LiveState;
  isPaused: boolean;
  setPaused: (paused: boolean) => void;
  every: number | false; // how often to ask for what no event tells of
}

const Context = createContext<Live>({ state: "reconnecting", isPaused: false, setPaused: () => {}, every: 15_000 });
const GATHER_MS = 1_000;
const HIDDEN_MS = 5_000;

export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const queries = useQueryClient();
  const [isPaused, setPaused] = useState(false);
  const [connection, setConnection] = useState<"live" | "reconnecting">("reconnecting");
  const isHidden = useHidden();
  const last = useRef<string | null>(null);
  const isStale = useRef(false); // something may have happened of which no event came
  const rests = isPaused || isHidden;

  useEffect(() => {
    if (rests) return;
    const stale = new Map<string, QueryKey>();
    const flush = setInterval(() => {
      for (const [name, key] of stale) {
        if (queries.isFetching({ queryKey: key }) > 0) continue; // it would be broken off, and never end where that takes longer than this pause
        stale.delete(name);
        void queries.invalidateQueries({ queryKey: key });
      }
    }, GATHER_MS);
    const stop = follow(
      at("/events"),
      {
        onState: (state) => {
          setConnection(state);
          if (state === "live" && isStale.current) void queries.invalidateQueries();
          isStale.current = state !== "live";
        },
        onMessage: (message) => {
          last.current = message.id ?? last.current;
          const keys = message.event === "missed" ? queries.getQueryCache().getAll().map((query) => query.queryKey) : touched(message.event, message.data);
          for (const key of keys) stale.set(JSON.stringify(key), key);
        },
      },
      last.current,
    );
    return () => {
      clearInterval(flush);
      stop();
      isStale.current = true;
      setConnection("reconnecting");
    };
  }, [rests, queries]);

  const held = useMemo<Live>(() => {
    const state = rests ? "paused" : connection;
    return { state, isPaused, setPaused, every: state === "paused" ? false : state === "live" ? 15_000 : 5_000 };
  }, [rests, connection, isPaused]);
  return <Context value={held}>{children}</Context>;
}

export const useLive = (): Live => use(Context);

/** The queries that an event makes out of date. */
function touched(kind: string, data: string): QueryKey[] {
  if (kind.startsWith("worker.")) return [["workers"], ["cluster"]];
  const { task_id } = JSON.parse(data) as Event;
  if (kind === "task.logged" || kind === "task.progress") return [["task", task_id]];
  return [["tasks"], ["task", task_id], ["stats"], ["queues"], ["configs"], ["workers"]];
}

function useHidden(): boolean {
  const [isHidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const look = (): void => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => setHidden(true), HIDDEN_MS);
      else setHidden(false);
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return isHidden;
}
