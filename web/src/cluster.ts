import { get } from "./api";
import type { Cluster } from "./types";

/** `clocks_apart_seconds`: at least so far, since nobody knows when between question and answer the time was told. */
export async function getCluster(signal?: AbortSignal): Promise<Cluster & { clocks_apart_seconds: number }> {
  const asked = Date.now();
  const found = await get<Cluster>("/cluster", {}, signal);
  const told = new Date(found.now).getTime();
  return { ...found, clocks_apart_seconds: Math.max(asked - told, told - Date.now(), 0) / 1000 };
}
