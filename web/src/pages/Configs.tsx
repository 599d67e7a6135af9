import { Badge, Button, Group, Paper, Stack, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Play, Plus, Search } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { Empty, Foreign, Known, Loading, PageHead, TextLink } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { RunNow } from "../components/RunNow";
import { duration, Relative, Time } from "../format";
import { useLive } from "../live";
import { go, useQueryState } from "../router";
import { useSession } from "../session";
import { oneLine } from "../text";
import type { Page, TaskConfig } from "../types";

export default function Configs(): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const { every } = useLive();
  const [query, change] = useQueryState();
  const wanted = (query.get("q") ?? "").toLowerCase();
  const [running, setRunning] = useState<TaskConfig | null>(null);
  const configs = useInfiniteQuery({
    queryKey: wanted ? ["search", "configs"] : ["configs", "list"], // what is searched are all pages: too many to be read again at every event
    queryFn: ({ pageParam, signal }) => get<Page<TaskConfig>>("/task-configs", { limit: 200, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: every,
  });
  const { hasNextPage, isFetching, isError, isPlaceholderData, fetchNextPage } = configs;
  useEffect(() => {
    if (wanted && hasNextPage && !isFetching && !isError) void fetchNextPage(); // what is searched for may be on any page
  }, [wanted, hasNextPage, isFetching, isError, fetchNextPage]);
  const all = configs.data?.pages.flatMap((page) => page.items) ?? [];
  const shown = all.filter((config) => `${config.type} ${config.name} ${config.description}`.toLowerCase().includes(wanted));

  return (
    <Stack>
      <PageHead title={t("nav.configs")} note={t("configs.about")}>
        {can("admin") && (
          <Button size="xs" leftSection={<Plus size={14} />} onClick={() => go("/task-configs/+new")}>
            {t("configs.new")}
          </Button>
        )}
      </PageHead>
      <ProblemAlert error={configs.error} onRetry={() => void configs.refetch()} />
      {all.length > 0 && (
        <TextInput data-search maw={320} leftSection={<Search size={14} />} placeholder={t("configs.search")} aria-label={t("configs.search")} value={query.get("q") ?? ""} onChange={(event) => change({ q: event.currentTarget.value })} />
      )}
      <Paper withBorder>
        <Known of={[configs]}>
          {all.length === 0 ? (
            <Empty title={t("configs.empty")} text={t("configs.empty_text")} command="rota dev app.py" />
          ) : shown.length === 0 && (hasNextPage || isPlaceholderData) ? (
            !isError && <Loading />
          ) : shown.length === 0 ? (
            <Empty title={t("tasks.none_match")} />
          ) : (
            <Table.ScrollContainer minWidth={560}>
              <Table highlightOnHover data-testid="configs" className="cards">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("configs.type")}</Table.Th>
                    <Table.Th>{t("configs.executor")}</Table.Th>
                    <Table.Th>{t("configs.schedule")}</Table.Th>
                    <Table.Th>{t("configs.next_fire")}</Table.Th>
                    <Table.Th visibleFrom="md">{t("task.timeout")}</Table.Th>
                    <Table.Th />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {shown.map((config) => (
                    <Table.Tr key={config.type}>
                      <Table.Td>
                        <Group gap="xs">
                          <TextLink to={`/task-configs/${part(config.type)}`}><Foreign text={config.type} /></TextLink>
                          {!config.enabled && <Badge color="gray" variant="light" tt="none">{t("configs.paused")}</Badge>}
                        </Group>
                        {(config.name || config.description) && <Text size="xs" c="dimmed" lineClamp={1}><Foreign text={config.name || config.description} /></Text>}
                      </Table.Td>
                      <Table.Td data-label={t("configs.executor")}><Badge variant="outline" color="gray" tt="none" miw="max-content">{oneLine(String(config.executor.type ?? ""), 30)}</Badge></Table.Td>
                      <Table.Td data-label={t("configs.schedule")}><span className="mono">{describeSchedule(config.schedule)}</span></Table.Td>
                      <Table.Td data-label={t("configs.next_fire")}>{config.next_fire_at && config.enabled ? <Text size="sm" component="div"><Relative at={config.next_fire_at} /><Text size="xs" c="dimmed"><Time at={config.next_fire_at} /></Text></Text> : "–"}</Table.Td>
                      <Table.Td visibleFrom="md" className="number">{duration(config.timeout_seconds)}</Table.Td>
                      <Table.Td ta="right">
                        {can("operator") && (
                          <Button size="compact-xs" variant="light" leftSection={<Play size={12} />} disabled={!config.enabled} onClick={() => setRunning(config)}>
                            {t("configs.run_now")}
                          </Button>
                        )}
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </Known>
      </Paper>
      {configs.hasNextPage && (
        <Group justify="center">
          <Button variant="default" size="xs" loading={configs.isFetchingNextPage} onClick={() => void configs.fetchNextPage()}>{t("common.more")}</Button>
        </Group>
      )}
      {running && <RunNow config={running} onClose={() => setRunning(null)} />}
    </Stack>
  );
}

export function describeSchedule(schedule: TaskConfig["schedule"]): string {
  if (schedule === null) return "–";
  const { cron, every_seconds, after_end_seconds, at, zone } = schedule;
  if (typeof cron === "string") return oneLine(`${cron}${typeof zone === "string" && zone !== "UTC" ? ` ${zone}` : ""}`, 80);
  if (typeof every_seconds === "number") return `⟳ ${duration(every_seconds)}`;
  if (typeof after_end_seconds === "number") return `⇥ ${duration(after_end_seconds)}`;
  return Array.isArray(at) ? `${at.length} ×` : oneLine(String(at ?? ""), 40);
}
