// The answers of the API that the console reads. A test compares the names with openapi.json.

export const STATUSES = [
  "PENDING",
  "BLOCKED",
  "PROCESSING",
  "RETRYING",
  "SUCCESS",
  "FAILED",
  "TIMEOUT",
  "CANCELLED",
] as const;
export type TaskStatus = (typeof STATUSES)[number];
export type Json = unknown;
export type Role = "viewer" | "operator" | "admin";

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface TaskResult {
  code: number;
  message: string;
  data: Json;
}

export interface TaskError {
  code: string;
  message: string;
  detail: string;
  retryable: boolean;
}

export interface Progress {
  fraction: number;
  message: string;
}

export interface Task {
  id: string;
  tenant: string;
  type: string;
  name: string;
  status: TaskStatus;
  priority: number;
  payload: Json;
  metadata: Record<string, string>;
  attempt: number;
  retry_count: number;
  max_retries: number;
  timeout_seconds: number;
  worker_id: string | null;
  scheduled_at: string | null;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  next_attempt_at: string | null;
  result: TaskResult | null;
  error: TaskError | null;
  rerun_of: string | null;
  progress: Progress | null;
  truncated: string[];
}

export interface LogLine {
  seq: string;
  kind: "ERROR" | "INFO" | "RETRY" | "STATE_CHANGE" | "WARNING";
  at: string;
  from_status: TaskStatus | null;
  to_status: TaskStatus | null;
  attempt: number;
  worker_id: string | null;
  message: string;
  detail: string;
}

export interface Explanation {
  task_id: string;
  status: TaskStatus;
  reason: string;
  sentence: string;
  due_at: string | null;
  attempt: number;
  worker_id: string | null;
  workers: number | null;
  room: number | null;
  running: number | null;
  max_concurrent: number | null;
  rate_per_second: number | null;
  global_rate: number | null;
  ready: number | null;
  executor: string | null;
  module: string | null;
  overlap: "skip" | "queue_one" | null;
  keeps_firing: boolean;
  error_code: string | null;
  error_message: string | null;
  draining: number | null;
}

export interface Retry {
  max_retries: number;
  strategy: "EXPONENTIAL" | "FIXED";
  delay_seconds: number;
  backoff_rate: number;
  max_delay_seconds: number;
  jitter: number;
  retry_on: string[];
  give_up_on: string[];
  total_timeout_seconds: number | null;
}

export interface TaskConfig {
  type: string;
  tenant: string;
  name: string;
  description: string;
  executor: Record<string, Json>;
  timeout_seconds: number;
  retry: Retry;
  priority: number;
  max_concurrent: number | null;
  rate_per_second: number | null;
  payload: Json;
  schedule: Record<string, Json> | null;
  next_fire_at: string | null;
  enabled: boolean;
  source: string;
  revision: number;
  created_at: string | null;
  updated_at: string | null;
  updated_by: string;
}

export interface CalendarSummary {
  name: string;
  tenant: string;
  description: string;
  origin: string;
  years: number[];
  revision: number;
  created_at: string | null;
  updated_at: string | null;
}

export interface Calendar {
  name: string;
  tenant: string;
  description: string;
  origin: string;
  years: number[]; // the first and the last that it knows; none: every one
  revision: number;
  created_at: string | null;
  updated_at: string | null;
  dates: string[];
  windows: { weekdays: number[]; begin: string; end: string }[];
  periods: { begin: string; end: string }[];
  business_days: { weekdays: number[]; holidays: string[]; workdays: string[] } | null;
}

export interface CalendarEffect {
  fire_at: string;
  effect: "skipped" | "moved" | "unknown" | "clocks_moved" | "clocks_skipped" | "clocks_first" | "clocks_second";
  detail: string;
  moved_from: string | null;
}

export interface SchedulePreview {
  type: string;
  schedule: Record<string, Json>;
  in_english: string;
  in_chinese: string;
  upcoming: string[];
  recent: string[];
  next_fire_at: string | null;
  runs: number;
  effects: CalendarEffect[];
  state: "active" | "paused" | "disabled" | "ended";
}

export interface Occurrence {
  type: string;
  fire_at: string;
  status: string;
  task_id: string | null;
  reason: string;
  since: string | null;
}

export interface Worker {
  id: string;
  name: string;
  address: string;
  capacity: number;
  load: number;
  types: string[];
  weight: number;
  labels: Record<string, string>;
  draining: boolean;
  alive: boolean;
  registered_at: string;
  seen_at: string;
  retired_at: string | null;
}

export interface Queue {
  priority: number;
  ready: number;
  oldest_age_seconds: number | null;
}

export interface Queues {
  items: Queue[];
  delayed: number;
  assigned: number;
  running: number;
}

export interface QueueType {
  type: string;
  ready: number;
  delayed: number;
  blocked: number;
  running: number;
  oldest_age_seconds: number | null;
}

export interface QueueTypes {
  items: QueueType[];
  complete: boolean;
  set_aside: number | null;
}

export interface ForecastBucket {
  begin: string;
  runs: number;
  work_seconds: number;
  busy: number;
  complete: boolean;
  unknown_runs: number;
}

export interface ForecastType {
  type: string;
  runs: number;
  first: string | null;
  last: string | null;
  run_seconds: number | null;
  complete: boolean;
}

export interface Forecast {
  begin: string;
  end: string;
  runs: number;
  buckets: ForecastBucket[];
  types: ForecastType[];
  unforeseen: string[];
  complete: boolean;
  reasons: Record<string, string>;
  known_until: string | null;
  left_out: string[];
}

export interface Stats {
  tasks: Partial<Record<TaskStatus, number>>;
  created_per_second: number;
  completed_per_second: number;
  failed_per_second: number;
  window_seconds: number;
}

export interface Node {
  id: string;
  roles: string[];
  is_leader: boolean;
  version: string;
  seen_at: string;
}

export interface Cluster {
  leader: string | null;
  term: number;
  nodes: Node[];
  store: string;
  coordinator: string;
  version: string;
  now: string;
  store_seconds: number | null;
  coordinator_seconds: number | null;
  coordinator_answers: boolean;
}

export interface Election {
  term: number;
  node: string;
  begun_at: string | null;
  ended_at: string | null;
  ending: "resigned" | "lost" | "silent" | null;
  reason: string;
}

export interface Event {
  id: string;
  kind: string;
  at: string;
  task_id: string | null;
  task_type: string;
  status: TaskStatus | null;
  attempt: number;
  worker_id: string | null;
  progress: Progress | null;
}

export interface Token {
  id: string;
  name: string;
  role: Role;
  tenant: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export interface NewToken {
  token: Token;
  secret: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  actor: string;
  token_id: string | null;
  action: string;
  object: string;
  address: string;
  detail: string;
}

export interface BulkCount {
  matched: number;
  changed: number;
  skipped: number;
  has_more: boolean;
  next_cursor: string | null;
}

export interface Durations {
  count: number;
  mean_seconds: number | null;
  min_seconds: number | null;
  max_seconds: number | null;
  p50_seconds: number | null;
  p95_seconds: number | null;
  p99_seconds: number | null;
}

export interface ReportFigures {
  submitted: number;
  succeeded: number;
  failed: number;
  timed_out: number;
  cancelled: number;
  quarantined: number;
  attempts: number;
  retries: number;
  success_rate: number | null;
  run: Durations;
  wait: Durations;
}

export interface ReportItem extends ReportFigures {
  start: string;
  end: string;
  type: string;
}

export interface ReportType extends ReportFigures {
  type: string;
}

export interface Report {
  begin: string;
  end: string;
  by: string;
  zone: string;
  complete_until: string | null;
  items: ReportItem[];
  types: ReportType[];
  totals: ReportFigures;
  slowest: string[];
  most_failing: string[];
}

export interface Setting {
  key: string;
  value: unknown;
  default: unknown;
  source: "default" | "file" | "environment" | "flag";
  origin: string;
  live: boolean;
  restart_needed: boolean;
  text: string;
}

export interface Settings {
  node: string;
  items: Setting[];
}

export interface FieldError {
  field: string;
  problem: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  errors: FieldError[];
  task_id?: string;
  needed_role?: string;
}

// Of /login and /session, which are no operations of the API.
export interface Session {
  name: string;
  token_id: string;
  role: Role;
  tenant: string;
  version: string;
  expires_at: string;
}
