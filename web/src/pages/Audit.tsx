import { Button, Group, NativeSelect, Paper, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { Empty, Foreign, Known, PageHead, TextLink } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { Typed } from "../components/Typed";
import { Time } from "../format";
import { reword, useServerWords } from "../i18n";
import { go, useQueryState } from "../router";
import { oneLine } from "../text";
import type { AuditEntry, Page } from "../types";

const LIMIT = 100;
const SINCE = { "1h": 3600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 } as const;
const CLUSTER = "cluster";
const NAMING = "task.create"; // its detail is a type, whatever that is called
const loadWords = (): Promise<{ default: Readonly<Record<string, string>> }> => import("../locales/audit.zh-CN.json");

/** What the address says should be shown. */
function toQuery(query: URLSearchParams): Record<string, string | boolean | undefined> {
  const given = query.get("since") ?? "";
  const since = Object.hasOwn(SINCE, given) ? SINCE[given as keyof typeof SINCE] : undefined;
  return {
    actor: query.get("actor") ?? "",
    action: query.get("action") ?? "",
    object: query.get("object") ?? "",
    after: since ? new Date(Math.floor(Date.now() / 60_000) * 60_000 - since * 1000).toISOString() : undefined,
    cluster: query.get("scope") === CLUSTER ? true : undefined,
  };
}

export default function Audit(): ReactNode {
  const { t } = useTranslation();
  const [query, change] = useQueryState();
  const audit = useInfiniteQuery({
    queryKey: ["audit", query.toString()],
    queryFn: ({ pageParam, signal }) => get<Page<AuditEntry>>("/audit", { ...toQuery(query), limit: LIMIT, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
  });
  const words = useServerWords(loadWords);
  const tell = (entry: AuditEntry): string => (entry.action !== NAMING && reword(words, entry.detail)) || entry.detail;
  const items = audit.data?.pages.flatMap((page) => page.items) ?? [];
  const isFiltered = query.size > 0;
  const isTyped = Boolean(query.get("actor") || query.get("object"));
  const more = (): void => void audit.fetchNextPage();
  return (
    <Stack>
      <PageHead title={t("nav.audit")} note={t("audit.about")}>
        {isFiltered && (
          <Button variant="subtle" size="xs" leftSection={<X size={14} />} onClick={() => go("/audit", { replace: true })}>
            {t("tasks.clear")}
          </Button>
        )}
      </PageHead>
      <Filters query={query} change={change} />
      <ProblemAlert error={audit.error} onRetry={() => void audit.refetch()} />
      <Paper withBorder>
        <Known of={[audit]}>
          {items.length === 0 ? (
            audit.hasNextPage ? (
              <Empty title={t("tasks.none_yet")} text={[t("audit.none_yet_text"), isTyped && t("audit.none_match_text")].filter(Boolean).join(" ")}>
                <Button variant="light" size="xs" loading={audit.isFetchingNextPage} onClick={more}>{t("tasks.search_on")}</Button>
              </Empty>
            ) : (
              <Empty title={t(isFiltered ? "tasks.none_match" : "audit.empty")} text={isTyped ? t("audit.none_match_text") : undefined} />
            )
          ) : (
            <Table.ScrollContainer minWidth={320}>
              <Table data-testid="audit">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th visibleFrom="sm">{t("audit.at")}</Table.Th>
                    <Table.Th>{t("audit.actor")}</Table.Th>
                    <Table.Th>{t("audit.action")}</Table.Th>
                    <Table.Th visibleFrom="sm">{t("audit.object")}</Table.Th>
                    <Table.Th visibleFrom="sm">{t("audit.detail")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {items.map((entry) => (
                    <Table.Tr key={entry.id}>
                      <Table.Td visibleFrom="sm"><Time at={entry.at} /></Table.Td>
                      <Table.Td>
                        <TextLink to={`/audit?${new URLSearchParams({ ...Object.fromEntries(query), actor: entry.actor }).toString()}`}><Foreign text={entry.actor} /></TextLink>
                        <Text size="xs" hiddenFrom="sm"><Time at={entry.at} /></Text>
                        <Text size="xs" c="dimmed" className="nowrap" visibleFrom="sm"><Foreign text={[entry.address, entry.token_id].filter(Boolean).join(" · ")} /></Text>
                      </Table.Td>
                      <Table.Td>
                        <Deed action={entry.action} />
                        <Text component="div" size="xs" hiddenFrom="sm"><Subject entry={entry} /><div><Foreign text={tell(entry)} most={300} /></div></Text>
                      </Table.Td>
                      <Table.Td visibleFrom="sm"><Subject entry={entry} /></Table.Td>
                      <Table.Td visibleFrom="sm"><Foreign text={tell(entry)} most={300} /></Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </Known>
      </Paper>
      {audit.hasNextPage && items.length > 0 && (
        <Group justify="center">
          <Button variant="default" size="xs" loading={audit.isFetchingNextPage} onClick={more}>{t("common.more")}</Button>
        </Group>
      )}
    </Stack>
  );
}

type Change = (changes: Record<string, string | null>) => void;

function Filters({ query, change }: { query: URLSearchParams; change: Change }): ReactNode {
  const { t } = useTranslation();
  const kinds = t("audit.actions", { returnObjects: true });
  const actions = Object.entries(kinds).flatMap(([kind, deeds]) => Object.entries(deeds).map(([deed, label]) => ({ value: `${kind}.${deed}`, label: String(label) })));
  const isOfCluster = query.get("scope") === CLUSTER;
  const offered = actions.filter(({ value }) => value.startsWith("leader.") === isOfCluster);
  const chosen = query.get("action") ?? "";
  const odd = chosen && !offered.some(({ value }) => value === chosen) ? [{ value: chosen, label: oneLine(chosen, 60) }] : [];
  return (
    <Group gap="xs" align="flex-start" className="filters">
      <NativeSelect
        label={t("audit.scope")}
        value={isOfCluster ? CLUSTER : ""}
        onChange={(event) => change({ scope: event.currentTarget.value, action: null, actor: null })}
        data={[{ value: "", label: t("audit.by_people") }, { value: CLUSTER, label: t("audit.by_cluster") }]}
      />
      <Typed label={t("audit.actor")} hint={t("audit.whole_hint")} value={query.get("actor") ?? ""} onChange={(actor) => change({ actor })} icon />
      <NativeSelect label={t("audit.action")} maw="13rem" value={chosen} onChange={(event) => change({ action: event.currentTarget.value })} data={[{ value: "", label: t("tasks.any") }, ...odd, ...offered]} />
      <Typed label={t("audit.object")} hint={t("audit.whole_hint")} value={query.get("object") ?? ""} onChange={(object) => change({ object })} />
      <NativeSelect
        label={t("audit.at")}
        value={query.get("since") ?? ""}
        onChange={(event) => change({ since: event.currentTarget.value })}
        data={[{ value: "", label: t("tasks.any") }, ...Object.keys(SINCE).map((value) => ({ value, label: value === "30d" ? t("audit.last_30d") : t(`tasks.last_${value as "1h"}`) }))]}
      />
    </Group>
  );
}

/** What was done, in words where there are some. */
function Deed({ action }: { action: string }): ReactNode {
  const { t, i18n } = useTranslation();
  const known = action as "task.create";
  return (
    <>
      {i18n.exists(`audit.actions.${known}`) && <div className="nowrap">{t(`audit.actions.${known}`)}</div>}
      <Text size="xs" c="dimmed" span className="mono nowrap">{action}</Text>
    </>
  );
}

function Subject({ entry }: { entry: AuditEntry }): ReactNode {
  const { t } = useTranslation();
  if (/^leader\./.test(entry.action)) return <TextLink to="/cluster">{t("cluster.term")} <Foreign text={entry.object} /></TextLink>;
  if (/^task\./.test(entry.action) && /^\d+$/.test(entry.object)) return <TextLink to={`/tasks/${entry.object}`}><span className="mono nowrap">{entry.object}</span></TextLink>;
  if (/^(config|schedule)\./.test(entry.action)) return <TextLink to={`/task-configs/${part(entry.object)}`}><Foreign text={entry.object} /></TextLink>;
  if (/^\d+$/.test(entry.object)) return <span className="mono nowrap">{entry.object}</span>;
  return <Foreign text={entry.object} />;
}
