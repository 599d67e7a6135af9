import { Alert, Badge, Group, Paper, SegmentedControl, SimpleGrid, Stack, Table, Text, UnstyledButton } from "@mantine/core";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { getCluster } from "../cluster";
import { Empty, Foreign, ink, Known, Loading, PageHead, paint, Panel, TextLink } from "../components/bits";
import { Problems } from "../components/problem";
import { count, duration, percent, rate, Relative, taken, Time } from "../format";
import { useLive } from "../live";
import { ended, gather, hour, LOCAL, useReport } from "../reports";
import { Link } from "../router";
import { addSample } from "../samples";
import { type Cluster, type Page, type QueueTypes, type Report, STATUSES, type Stats, type Task, type TaskConfig, type Worker } from "../types";

const RateChart = lazy(() => import("../components/RateChart"));
const BarChart = lazy(() => import("../components/BarChart"));
const GROUPED = 100; // failures that are looked at
const DAY_MS = 86_400_000;
const WAITING_MS = 15_000; // not at every event, as the next two: they are the heaviest questions here
const FAILED_MS = 20_000;
const REPORT_MS = 60_000;
const SAMPLE_MS = 3_000;
const LAG_SECONDS = 60;
const LATE_MS = 10_000; // a fire that is so long overdue is not about to happen
const FAILED = "/tasks?status=FAILED&status=TIMEOUT&since=24h";

interface Asked {
  stats: UseQueryResult<Stats>;
  waiting: UseQueryResult<QueueTypes>;
  failed: UseQueryResult<Page<Task>>;
  report: UseQueryResult<Report>;
  configs: UseQueryResult<Page<TaskConfig>>;
  cluster: UseQueryResult<Cluster>;
  workers: UseQueryResult<Page<Worker>>;
}

const getFailed = (signal: AbortSignal, type: readonly string[] = []): Promise<Page<Task>> =>
  get("/tasks", { limit: GROUPED, status: ["FAILED", "TIMEOUT"], type: [...type], created_after: new Date(Date.now() - DAY_MS).toISOString() }, signal);

function useAsked(): Asked {
  const { state, every } = useLive();
  const within = (ms: number): number | false => (state === "paused" ? false : ms);
  return {
    stats: useQuery({ queryKey: ["stats"], queryFn: ({ signal }) => get<Stats>("/stats", {}, signal), refetchInterval: within(SAMPLE_MS) }),
    waiting: useQuery({
      queryKey: ["waiting"],
      queryFn: ({ signal }) => get<QueueTypes>("/queues/types", {}, signal),
      refetchInterval: within(WAITING_MS),
    }),
    failed: useQuery({
      queryKey: ["failed"],
      queryFn: ({ signal }) => getFailed(signal),
      refetchInterval: within(FAILED_MS),
    }),
    report: useReport({ range: "24h", zone: LOCAL, type: "" }, REPORT_MS),
    configs: useQuery({
      queryKey: ["configs", "fires"],
      queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: 1000 }, signal),
      refetchInterval: every,
    }),
    cluster: useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => getCluster(signal), refetchInterval: every }),
    workers: useQuery({
      queryKey: ["workers", "overview"],
      queryFn: ({ signal }) => get<Page<Worker>>("/workers", { limit: 1000 }, signal),
      refetchInterval: every,
    }),
  };
}

export default function Overview(): ReactNode {
  const { t } = useTranslation();
  const asked = useAsked();
  const { stats, waiting, failed, report, configs, cluster, workers } = asked;
  useEffect(() => {
    if (stats.data) addSample(stats.dataUpdatedAt / 1000, stats.data);
  }, [stats.data, stats.dataUpdatedAt]);
  const failures = (stats.data?.tasks.FAILED ?? 0) + (stats.data?.tasks.TIMEOUT ?? 0);
  useEffect(() => {
    if (failures > 0 && failed.data?.items.length === 0) void failed.refetch(); // the first one is not counted above and missing below
  }, [failures]);

  return (
    <Stack>
      <PageHead title={t("nav.overview")} />
      <Problems of={Object.values(asked)} />
      {stats.isPending && <Loading />}
      {stats.data && <Counts stats={stats.data} />}
      <Figures stats={stats.data} waiting={waiting.data} report={report.data} />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Activity report={report} version={stats.dataUpdatedAt} />
        <Failures failed={failed} report={report.data} />
        <NextFires configs={configs} />
        <Nodes cluster={cluster} workers={workers} />
      </SimpleGrid>
    </Stack>
  );
}

/** What ended in each of the last hours, or what happens while one looks on. */
function Activity({ report: asked, version }: { report: Asked["report"]; version: number }): ReactNode {
  const { t, i18n } = useTranslation();
  const { data: report } = asked;
  const [isLive, setLive] = useState<boolean | null>(null); // null: not known yet which has something to show
  const bars = useMemo(() => (report ? gather(report) : null), [report]);
  useEffect(() => {
    if (report) setLive((before) => before ?? report.types.length === 0);
  }, [report]);
  const name = useCallback((seconds: number) => hour(seconds * 1000), [i18n.language]);
  return (
    <Panel
      title={t(isLive ? "overview.rates" : "reports.chart")}
      aside={<SegmentedControl size="xs" aria-label={t("overview.time")} value={isLive ? "live" : "24h"} onChange={(value) => setLive(value === "live")} data={[{ value: "24h", label: t("overview.by_hour") }, { value: "live", label: t("overview.live") }]} />}
    >
      <Suspense fallback={<Loading />}>
        {isLive ? <RateChart version={version} /> : <Known of={[asked]}>{bars && isLive === false && <BarChart bars={bars} name={name} />}</Known>}
      </Suspense>
    </Panel>
  );
}

function Counts({ stats }: { stats: Stats }): ReactNode {
  const { t } = useTranslation();
  const all = STATUSES.reduce((sum, status) => sum + (stats.tasks[status] ?? 0), 0);
  if (all === 0) {
    return (
      <Paper withBorder>
        <Empty title={t("overview.empty")} text={t("overview.empty_text")} command="rota task submit sample_hello --wait" />
      </Paper>
    );
  }
  return (
    <SimpleGrid cols={{ base: 2, xs: 4, lg: 8 }} spacing="sm">
      {STATUSES.map((status) => (
        <UnstyledButton key={status} component={Link} to={`/tasks?status=${status}`} data-testid={`count-${status}`}>
          <Paper withBorder p="sm" style={{ borderTop: `3px solid ${paint(status)}` }}>
            <Text size="xs" c="dimmed" truncate>
              {t(`status.${status}`)}
            </Text>
            <Text size="xl" fw={700} className="number">
              {count(stats.tasks[status] ?? 0)}
            </Text>
          </Paper>
        </UnstyledButton>
      ))}
    </SimpleGrid>
  );
}

/** The counts of tasks are of now, those of a report of a moment ago. */
const summedUntil = (report: Report | undefined): string => (report?.complete_until ? hour(Date.parse(report.complete_until)) : "–");

function Figures({ stats, waiting, report }: { stats?: Stats; waiting?: QueueTypes; report?: Report }): ReactNode {
  const { t } = useTranslation();
  const totals = report?.totals;
  const run = (seconds: number | null | undefined): string => (seconds == null ? "–" : taken(seconds));
  const sum = (field: "ready" | "delayed"): string => {
    if (!waiting) return "–";
    const all = count(waiting.items.reduce((total, one) => total + one[field], 0));
    return waiting.complete ? all : `≥ ${all}`;
  };
  const oldest = waiting && Math.max(0, ...waiting.items.map((one) => one.oldest_age_seconds ?? 0));
  const reports = "/reports?range=24h";
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 6 }} spacing="sm">
      <Figure label={t("overview.throughput")} value={t("overview.per_second", { rate: stats ? rate(stats.completed_per_second) : "–" })} note={t("overview.created_rate", { rate: stats ? rate(stats.created_per_second) : "–" })} to={reports} />
      <Figure label={t("overview.success")} value={totals?.success_rate == null ? "–" : percent(totals.success_rate)} note={totals && ended(totals) > 0 ? t("overview.ended_today", { number: count(ended(totals)), time: summedUntil(report) }) : t("overview.today")} to={FAILED} />
      <Figure label={t("overview.median")} value={run(totals?.run.p50_seconds)} note={t("overview.today")} to={reports} />
      <Figure label={t("overview.p95")} value={run(totals?.run.p95_seconds)} note={`p99 ${run(totals?.run.p99_seconds)}`} to={reports} />
      <Figure label={t("overview.lag")} value={oldest === undefined ? "–" : duration(Math.floor(oldest))} note={t("overview.due", { number: sum("ready") })} to="/queues" isBad={(oldest ?? 0) > LAG_SECONDS} />
      <Figure label={t("overview.later")} value={sum("delayed")} note={t("overview.later_note")} to="/queues" />
    </SimpleGrid>
  );
}

function Figure({ label, value, note, to, isBad = false }: { label: string; value: string; note: string; to: string; isBad?: boolean }): ReactNode {
  return (
    <UnstyledButton component={Link} to={to}>
      <Paper withBorder p="sm" h="100%">
        <Text size="xs" c="dimmed">
          {label}
        </Text>
        <Text size="lg" fw={700} className="number" style={{ color: isBad ? ink("FAILED") : undefined }}>
          {value}
        </Text>
        <Text size="xs" c="dimmed">
          {note}
        </Text>
      </Paper>
    </UnstyledButton>
  );
}

/** The newest failures of types that others have pushed out of the newest of all. */
function useRarer(failed: Asked["failed"], report: Report | undefined): readonly Task[] {
  const seen = new Set(failed.data?.items.map((task) => task.type));
  const missing = failed.data?.next_cursor ? (report?.most_failing ?? []).filter((type) => !seen.has(type)) : [];
  const { data } = useQuery({
    queryKey: ["failed", "rarer", ...missing],
    queryFn: ({ signal }) => getFailed(signal, missing),
    enabled: missing.length > 0,
    staleTime: REPORT_MS,
  });
  return missing.length > 0 ? (data?.items ?? []) : [];
}

interface Group {
  type: string;
  code: string;
  message: string;
  times: number;
  last: Task;
}

function Failures({ failed, report }: { failed: Asked["failed"]; report: Report | undefined }): ReactNode {
  const { t } = useTranslation();
  const rarer = useRarer(failed, report);
  const groups = useMemo(() => groupFailures([...(failed.data?.items ?? []), ...rarer]), [failed.data, rarer]);
  return (
    <Panel title={t("overview.failures")} aside={<TextLink to={FAILED}>{t("overview.all_failures")}</TextLink>}>
      <Known of={[failed]}>
        {groups.length === 0 ? (
          <Empty title={t("overview.no_failures")} text={t("overview.today")} />
        ) : (
          <Table.ScrollContainer minWidth={320}>
            <Table>
              <Table.Tbody>
                {groups.slice(0, 8).map((group) => (
                  <Table.Tr key={`${group.type} ${group.code}`}>
                    <Table.Td w={1}>
                      <Badge color="red" variant="light" miw="max-content">
                        {count(group.times)}
                      </Badge>
                    </Table.Td>
                    <Table.Td>
                      <TextLink to={`${FAILED}&type=${part(group.type)}`}>
                        <Foreign text={group.type} most={60} />
                      </TextLink>
                      <Text size="xs" c="dimmed" lineClamp={2}>
                        <b>{group.code}</b> <Foreign text={group.message} />
                      </Text>
                    </Table.Td>
                    <Table.Td ta="right" className="nowrap">
                      <TextLink to={`/tasks/${group.last.id}`}>{group.last.completed_at ? <Relative at={group.last.completed_at} /> : ""}</TextLink>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Known>
      {failed.data?.next_cursor && <Text size="xs" c="dimmed">{t("overview.newest_failures", { number: count(failed.data.items.length) })}</Text>}
    </Panel>
  );
}

function groupFailures(tasks: readonly Task[]): Group[] {
  const groups = new Map<string, Group>();
  for (const task of tasks) {
    const code = task.error?.code ?? task.status;
    const key = `${task.type} ${code}`;
    const known = groups.get(key);
    if (known) known.times += 1;
    else groups.set(key, { type: task.type, code, message: task.error?.message ?? "", times: 1, last: task });
  }
  return [...groups.values()].sort((a, b) => b.times - a.times);
}

function NextFires({ configs }: Pick<Asked, "configs">): ReactNode {
  const { t } = useTranslation();
  const coming = (configs.data?.items ?? [])
    .filter((config) => config.next_fire_at !== null && config.enabled)
    .sort((a, b) => (a.next_fire_at ?? "").localeCompare(b.next_fire_at ?? ""))
    .slice(0, 8);
  const isPart = (configs.data?.next_cursor ?? null) !== null;
  return (
    <Panel title={t("overview.next")} aside={<TextLink to="/forecast">{t("nav.forecast")}</TextLink>}>
      <Known of={[configs]}>
        {coming.length === 0 && !isPart ? (
          <Empty title={t("overview.no_schedule")} text={t("overview.no_schedule_text")} command="rota schedule preview '*/5 * * * *'">
            <TextLink to="/task-configs">{t("nav.configs")}</TextLink>
          </Empty>
        ) : (
          <Table>
            <Table.Tbody>
              {coming.map((config) => (
                <Table.Tr key={config.type}>
                  <Table.Td>
                    <TextLink to={`/task-configs/${part(config.type)}`}>
                      <Foreign text={config.type} most={60} />
                    </TextLink>
                  </Table.Td>
                  <Table.Td ta="right">
                    <Text size="sm" style={{ color: isLate(config) ? ink("FAILED") : undefined }}>{config.next_fire_at && <Relative at={config.next_fire_at} />}</Text>
                  </Table.Td>
                  <Table.Td ta="right" visibleFrom="xs">
                    <Text size="sm" c="dimmed">
                      <Time at={config.next_fire_at} />
                    </Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Known>
      {isPart && <Text size="xs" c="dimmed">{t("overview.first_types", { number: count(configs.data?.items.length ?? 0) })}</Text>}
    </Panel>
  );
}

const isLate = (config: TaskConfig): boolean => Date.now() - new Date(config.next_fire_at ?? Date.now()).getTime() > LATE_MS;

function Nodes({ cluster, workers }: Pick<Asked, "cluster" | "workers">): ReactNode {
  const { t } = useTranslation();
  const alive = (workers.data?.items ?? []).filter((worker) => worker.alive);
  const room = alive.reduce((sum, worker) => sum + worker.capacity, 0);
  const load = alive.reduce((sum, worker) => sum + worker.load, 0);
  return (
    <Panel title={t("nav.cluster")} aside={<TextLink to="/cluster">{t("overview.term", { term: cluster.data?.term ?? "–" })}</TextLink>}>
      {cluster.data?.leader === null && <Alert color="yellow">{t("cluster.no_leader")}</Alert>}
      {workers.data && alive.length === 0 && <Empty title={t("workers.empty")} command="rota worker" />}
      <Stack gap="xs">
        <Known of={[cluster]}>
          {(cluster.data?.nodes ?? []).slice(0, 8).map((node) => (
            <Group key={node.id} justify="space-between" gap="xs">
              <TextLink to="/cluster"><Foreign text={node.id} /></TextLink>
              <Group gap={4}>
                {node.is_leader && <Badge variant="light" tt="none">{t("cluster.leader")}</Badge>}
                {node.roles.map((role) => (
                  <Badge key={role} variant="outline" color="gray" tt="none">
                    {role}
                  </Badge>
                ))}
              </Group>
            </Group>
          ))}
        </Known>
        {alive.length > 0 && (
          <Text size="sm" c="dimmed">
            <TextLink to="/workers">{t("overview.workers", { number: count(alive.length), load: count(load), room: count(room) })}</TextLink>
          </Text>
        )}
      </Stack>
    </Panel>
  );
}
