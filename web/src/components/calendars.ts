import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { get } from "../api";
import type { Page, TaskConfig } from "../types";

const MOST_CONFIGS = 1000;

interface User {
  type: string;
  keepsTo: boolean; // or out of it
}

interface Users {
  of: (name: string) => User[];
  isPart: boolean; // there may be others
}

/** Which types name a calendar in their schedules; nothing while that is not known. */
export function useUsers(): Users | undefined {
  const { data } = useQuery({
    queryKey: ["configs", "types"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: MOST_CONFIGS }, signal),
    staleTime: 30_000,
  });
  return useMemo(() => data && { of: (name) => data.items.flatMap((config) => usesOf(config, name)), isPart: data.next_cursor !== null }, [data]);
}

function usesOf({ type, schedule }: TaskConfig, name: string): User[] {
  const names = (key: "only" | "exclude"): boolean => Array.isArray(schedule?.[key]) && schedule[key].includes(name);
  return [...(names("only") ? [{ type, keepsTo: true }] : []), ...(names("exclude") ? [{ type, keepsTo: false }] : [])];
}
