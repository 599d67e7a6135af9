// How the console speaks to the server: relative to the page, with the session's cookie, and with a header that no other
// site can make a browser send.

import { readJson, writeJson } from "./json";
import type { Problem } from "./types";

const PATIENCE_MS = 30_000;
export const API = "api/v1";

export class ApiError extends Error {
  constructor(
    readonly problem: Problem,
    readonly retryAfter: number | null = null,
  ) {
    super(problem.detail);
  }

  get isOver(): boolean {
    return this.problem.status === 401;
  }
}

type Body = object | undefined;
type Listener = () => void;

const whenOver = new Set<Listener>();

/** Called when the server says that nobody is logged in. */
export function onSessionOver(listener: Listener): Listener {
  whenOver.add(listener);
  return () => whenOver.delete(listener);
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return { "X-Rota-Console": "1", ...more };
}

interface Sending {
  signal?: AbortSignal;
  key?: string; // under the same one it is done once, however often it is sent
}

export async function request<T>(method: string, path: string, body?: Body, how: Sending = {}): Promise<T> {
  const text = await send(method, path, body, how);
  return (text === "" ? undefined : readJson(text)) as T;
}

async function send(method: string, path: string, body?: Body, { signal, key }: Sending = {}): Promise<string> {
  const within = AbortSignal.timeout(PATIENCE_MS);
  const sent: Record<string, string> = { ...(body && { "Content-Type": "application/json" }), ...(key && { "Idempotency-Key": key }) };
  let refused: ApiError;
  try {
    const answer = await fetch(path, {
      method,
      headers: headers(sent),
      body: body === undefined ? undefined : writeJson(body),
      signal: signal ? AbortSignal.any([signal, within]) : within,
      redirect: "error",
    });
    if (answer.ok) return await answer.text();
    refused = await toError(answer);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(unreachable());
  }
  throw refused;
}

export async function toError(answer: Response): Promise<ApiError> {
  let problem: Problem;
  try {
    problem = (await answer.json()) as Problem;
  } catch {
    problem = { ...unreachable(), status: answer.status, title: answer.statusText };
  }
  const wait = Number(answer.headers.get("Retry-After"));
  const error = new ApiError({ ...problem, errors: problem.errors ?? [] }, wait > 0 ? wait : null);
  if (error.isOver) for (const listener of whenOver) listener();
  return error;
}

function unreachable(): Problem {
  return { type: "", title: "", status: 0, code: "unreachable", detail: "", errors: [] };
}

type QueryValue = string | number | boolean | null | undefined | readonly (string | number)[];

/** A path below the API, with a query; what is empty is left out, but for metadata: an empty value is one to search for. */
export function at(path: string, query: Record<string, QueryValue> = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && (one !== "" || name.startsWith("metadata."))) found.append(name, String(one));
    }
  }
  const text = found.toString();
  return `${API}${path}${text ? `?${text}` : ""}`;
}

export const get = <T>(path: string, query: Record<string, QueryValue> = {}, signal?: AbortSignal): Promise<T> =>
  request<T>("GET", at(path, query), undefined, { signal });
export const getText = (path: string, query: Record<string, QueryValue>): Promise<string> => send("GET", at(path, query));
export const post = <T>(path: string, body: Body = {}, key?: string): Promise<T> => request<T>("POST", at(path), body, { key });
export const put = <T>(path: string, body: Body): Promise<T> => request<T>("PUT", at(path), body);
export const patch = <T>(path: string, body: Body): Promise<T> => request<T>("PATCH", at(path), body);
export const remove = (path: string): Promise<void> => request<void>("DELETE", at(path));

/** A part of a path that somebody else chose. */
export const part = (text: string): string => encodeURIComponent(text);
