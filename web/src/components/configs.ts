import { part, put } from "../api";
import type { TaskConfig } from "../types";

/** Define a type as it is but for some of it; refused when it is no longer the revision that was seen. */
export function redefine(config: TaskConfig, changes: Partial<TaskConfig>): Promise<TaskConfig> {
  const { type, name, description, executor, timeout_seconds, retry, priority, max_concurrent, rate_per_second, payload, schedule, source, enabled, revision } = config;
  const kept = { name, description, executor, timeout_seconds, retry, priority, max_concurrent, rate_per_second, payload, schedule, source, enabled };
  return put<TaskConfig>(`/task-configs/${part(type)}`, { ...kept, ...changes, revision });
}
