import { Alert, Badge, Group, Paper, SimpleGrid, Stack, Table, Text, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useEffect, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { Empty, Foreign, Loading, PageHead, paint, Panel, TextLink } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { between, count, duration, percent, rate, Relative, Time } from "../format";
import { useLive } from "../live";
import { Link } from "../router";
import { addSample } from "../samples";
import { type Cluster, type Page, type Queues, STATUSES, type Stats, type Task, type TaskConfig, type Worker } from "../types";

const RateChart = lazy(() => import("../components/RateChart"));
const RECENT = 100;
const RECENT_MS = 10_000;
const SAMPLE_MS = 3_000;

export default function Overview(): ReactNode {
  const { t } = useTranslation();
  const { every, state } = useLive();
  const often = state === "paused" ? (false as const) : SAMPLE_MS;
  const stats = useQuery({ queryKey: ["stats"], queryFn: ({ signal }) => get<Stats>("/stats", {}, signal), refetchInterval: often });
  const queues = useQuery({ queryKey: ["queues"], queryFn: ({ signal }) => get<Queues>("/queues", {}, signal), refetchInterval: every });
  const recent = useQuery({
    queryKey: ["recent"], // not at every event: it is the heaviest question here
    queryFn: ({ signal }) => get<Page<Task>>("/tasks", { limit: RECENT, status: ["SUCCESS", "FAILED", "TIMEOUT"] }, signal),
    refetchInterval: state === "paused" ? false : RECENT_MS,
  });
  useEffect(() => {
    if (stats.data) addSample(stats.dataUpdatedAt / 1000, stats.data);
  }, [stats.data, stats.dataUpdatedAt]);

  if (stats.isPending) return <Loading />;
  return (
    <Stack>
      <PageHead title={t("nav.overview")} />
      <ProblemAlert error={stats.error ?? queues.error ?? recent.error} onRetry={() => void stats.refetch()} />
      {stats.data && <Counts stats={stats.data} />}
      <Figures stats={stats.data} queues={queues.data} recent={recent.data?.items ?? []} />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Panel title={t("overview.rates")} aside={<Text size="xs" c="dimmed">{t("overview.rates_note")}</Text>}>
          <Suspense fallback={<Loading />}>
            <RateChart version={stats.dataUpdatedAt} />
          </Suspense>
        </Panel>
        <Failures tasks={recent.data?.items ?? []} />
        <NextFires />
        <Nodes />
      </SimpleGrid>
    </Stack>
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

function Figures({ stats, queues, recent }: { stats?: Stats; queues?: Queues; recent: Task[] }): ReactNode {
  const { t } = useTranslation();
  const ended = recent.filter((task) => task.started_at && task.completed_at);
  const times = ended.map((task) => between(task.started_at ?? "", task.completed_at ?? "")).sort((a, b) => a - b);
  const good = recent.filter((task) => task.status === "SUCCESS").length;
  const ready = queues?.items.reduce((sum, queue) => sum + queue.ready, 0) ?? 0;
  const oldest = Math.max(0, ...(queues?.items.map((queue) => queue.oldest_age_seconds ?? 0) ?? []));
  const of = t("overview.of_last", { number: recent.length });
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 6 }} spacing="sm">
      <Figure label={t("overview.throughput")} value={t("overview.per_second", { rate: rate(stats?.completed_per_second ?? 0) })} note={t("overview.created_rate", { rate: rate(stats?.created_per_second ?? 0) })} />
      <Figure label={t("overview.success")} value={recent.length ? percent(good / recent.length) : "–"} note={of} to="/tasks?status=FAILED&status=TIMEOUT" />
      <Figure label={t("overview.median")} value={quantile(times, 0.5)} note={of} />
      <Figure label={t("overview.p95")} value={quantile(times, 0.95)} note={`p99 ${quantile(times, 0.99)}`} />
      <Figure label={t("overview.lag")} value={ready > 0 ? duration(oldest) : duration(0)} note={t("overview.ready", { number: count(ready) })} to="/tasks?status=PENDING" />
      <Figure label={t("overview.later")} value={count(queues?.delayed ?? 0)} note={t("overview.later_note")} to="/tasks?status=PENDING&status=RETRYING" />
    </SimpleGrid>
  );
}

function Figure({ label, value, note, to }: { label: string; value: string; note: string; to?: string }): ReactNode {
  const inside = (
    <Paper withBorder p="sm" h="100%">
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text size="lg" fw={700} className="number">
        {value}
      </Text>
      <Text size="xs" c="dimmed">
        {note}
      </Text>
    </Paper>
  );
  return to ? (
    <UnstyledButton component={Link} to={to}>
      {inside}
    </UnstyledButton>
  ) : (
    inside
  );
}

function quantile(sorted: number[], part: number): string {
  const found = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  return found === undefined ? "–" : duration(found);
}

interface Group {
  type: string;
  code: string;
  message: string;
  times: number;
  last: Task;
}

function Failures({ tasks }: { tasks: Task[] }): ReactNode {
  const { t } = useTranslation();
  const groups = useMemo(() => groupFailures(tasks), [tasks]);
  return (
    <Panel title={t("overview.failures")} aside={<TextLink to="/tasks?status=FAILED&status=TIMEOUT">{t("overview.all_failures")}</TextLink>}>
      {groups.length === 0 ? (
        <Empty title={t("overview.no_failures")} text={t("overview.of_last", { number: tasks.length })} />
      ) : (
        <Table.ScrollContainer minWidth={320}>
          <Table>
            <Table.Tbody>
              {groups.slice(0, 8).map((group) => (
                <Table.Tr key={`${group.type} ${group.code}`}>
                  <Table.Td w={50}>
                    <Badge color="red" variant="light">
                      {count(group.times)}
                    </Badge>
                  </Table.Td>
                  <Table.Td>
                    <TextLink to={`/tasks?status=FAILED&status=TIMEOUT&type=${part(group.type)}`}>
                      <Foreign text={group.type} most={60} />
                    </TextLink>
                    <Text size="xs" c="dimmed" lineClamp={2}>
                      <b>{group.code}</b> <Foreign text={group.message} />
                    </Text>
                  </Table.Td>
                  <Table.Td ta="right">
                    <TextLink to={`/tasks/${group.last.id}`}>{group.last.completed_at ? <Relative at={group.last.completed_at} /> : ""}</TextLink>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Panel>
  );
}

function groupFailures(tasks: Task[]): Group[] {
  const groups = new Map<string, Group>();
  for (const task of tasks) {
    if (task.status === "SUCCESS") continue;
    const code = task.error?.code ?? task.status;
    const key = `${task.type} ${code}`;
    const known = groups.get(key);
    if (known) known.times += 1;
    else groups.set(key, { type: task.type, code, message: task.error?.message ?? "", times: 1, last: task });
  }
  return [...groups.values()].sort((a, b) => b.times - a.times);
}

function NextFires(): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const configs = useQuery({
    queryKey: ["configs", "fires"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: 1000 }, signal),
    refetchInterval: every,
  });
  const coming = (configs.data?.items ?? [])
    .filter((config) => config.next_fire_at !== null && config.enabled)
    .sort((a, b) => (a.next_fire_at ?? "").localeCompare(b.next_fire_at ?? ""))
    .slice(0, 8);
  return (
    <Panel title={t("overview.next")} aside={<TextLink to="/task-configs">{t("nav.configs")}</TextLink>}>
      {coming.length === 0 ? (
        <Empty title={t("overview.no_schedule")} text={t("overview.no_schedule_text")} command={'rota schedule preview "*/5 * * * *"'} />
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
                  <Text size="sm">{config.next_fire_at && <Relative at={config.next_fire_at} />}</Text>
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
    </Panel>
  );
}

function Nodes(): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const cluster = useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => get<Cluster>("/cluster", {}, signal), refetchInterval: every });
  const workers = useQuery({
    queryKey: ["workers", "overview"],
    queryFn: ({ signal }) => get<Page<Worker>>("/workers", { limit: 1000 }, signal),
    refetchInterval: every,
  });
  const alive = (workers.data?.items ?? []).filter((worker) => worker.alive);
  const room = alive.reduce((sum, worker) => sum + worker.capacity, 0);
  const load = alive.reduce((sum, worker) => sum + worker.load, 0);
  return (
    <Panel title={t("nav.cluster")} aside={<TextLink to="/cluster">{t("overview.term", { term: cluster.data?.term ?? "–" })}</TextLink>}>
      {cluster.data?.leader === null && <Alert color="yellow">{t("cluster.no_leader")}</Alert>}
      {workers.data && alive.length === 0 && <Empty title={t("workers.empty")} command="rota worker" />}
      <Stack gap="xs">
        {(cluster.data?.nodes ?? []).slice(0, 8).map((node) => (
          <Group key={node.id} justify="space-between" gap="xs">
            <Text size="sm" className="foreign">
              {node.id}
            </Text>
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
        {alive.length > 0 && (
          <Text size="sm" c="dimmed">
            <TextLink to="/workers">{t("overview.workers", { number: count(alive.length), load: count(load), room: count(room) })}</TextLink>
          </Text>
        )}
      </Stack>
    </Panel>
  );
}
