// Which worker, by the name that people gave it.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { get } from "../api";
import type { Page, Worker } from "../types";
import { Foreign, TextLink } from "./bits";

const KNOWN_MS = 60_000;

/** Those of the workers that live; one that has ended is no longer known by its name. */
export function useWorkerNames(): (id: string | null) => string | undefined {
  const workers = useQuery({
    queryKey: ["worker-names"], // not at every event: names stay
    queryFn: ({ signal }) => get<Page<Worker>>("/workers", { limit: 1000 }, signal),
    staleTime: KNOWN_MS,
  });
  return (id) => workers.data?.items.find((worker) => worker.id === id)?.name;
}

/** A link to the tasks of a worker, by its name or by the end of its id. */
export function WorkerName({ id }: { id: string | null }): ReactNode {
  const nameOf = useWorkerNames();
  if (id === null) return "–";
  const name = nameOf(id);
  return (
    <TextLink to={`/tasks?worker=${id}`} title={id}>
      {name ? <Foreign text={name} most={30} /> : <span className="mono">…{id.slice(-6)}</span>}
    </TextLink>
  );
}
