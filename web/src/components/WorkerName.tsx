// Which worker, by the name that people gave it.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { get } from "../api";
import type { Page, Worker } from "../types";
import { Foreign, TextLink } from "./bits";

const KNOWN_MS = 60_000;
const PAGE = 1000;
const MOST_PAGES = 10; // of those that have ended: some thousand in a day are many deploys

type Names = ReadonlyMap<string, string>;

/** The name of a worker that lives, or ended within the last day; those that have ended are asked for when one is not known. */
export function useWorkerName(id: string | null): string | undefined {
  const alive = useNames(false, id !== null);
  const isKnown = id === null || alive === undefined || alive.has(id);
  const all = useNames(true, !isKnown);
  return id === null ? undefined : (alive?.get(id) ?? all?.get(id));
}

function useNames(all: boolean, isWanted: boolean): Names | undefined {
  const found = useQuery({
    queryKey: ["worker-names", all], // not at every event: names stay
    queryFn: ({ signal }) => readNames(all, signal),
    staleTime: KNOWN_MS,
    enabled: isWanted,
  });
  return found.data;
}

async function readNames(all: boolean, signal: AbortSignal): Promise<Names> {
  const names = new Map<string, string>();
  let cursor: string | null = "";
  for (let pages = 0; cursor !== null && pages < MOST_PAGES; pages++) {
    const page: Page<Worker> = await get<Page<Worker>>("/workers", { all, limit: PAGE, cursor }, signal);
    for (const worker of page.items) names.set(worker.id, worker.name);
    cursor = page.next_cursor;
  }
  return names;
}

/** A link to the tasks of a worker, by its name or by the end of its id. */
export function WorkerName({ id }: { id: string | null }): ReactNode {
  const name = useWorkerName(id);
  if (id === null) return "–";
  return (
    <TextLink to={`/tasks?worker=${id}`} title={id}>
      {name ? <Foreign text={name} most={30} /> : <span className="mono">…{id.slice(-6)}</span>}
    </TextLink>
  );
}
