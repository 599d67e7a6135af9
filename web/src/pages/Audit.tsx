import { Button, Group, Paper, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { Empty, Foreign, Loading, PageHead, TextLink } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { Time } from "../format";
import type { AuditEntry, Page } from "../types";

export default function Audit(): ReactNode {
  const { t } = useTranslation();
  const audit = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ pageParam, signal }) => get<Page<AuditEntry>>("/audit", { limit: 100, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
  });
  const items = audit.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageHead title={t("nav.audit")} note={t("audit.about")} />
      <ProblemAlert error={audit.error} onRetry={() => void audit.refetch()} />
      <Paper withBorder>
        {audit.isPending ? (
          <Loading />
        ) : items.length === 0 ? (
          <Empty title={t("audit.empty")} />
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
                      <Foreign text={entry.actor} />
                      <Text size="xs" hiddenFrom="sm"><Time at={entry.at} /></Text>
                      <Text size="xs" c="dimmed" className="nowrap" visibleFrom="sm"><Foreign text={[entry.address, entry.token_id].filter(Boolean).join(" · ")} /></Text>
                    </Table.Td>
                    <Table.Td>
                      <Deed action={entry.action} />
                      <Text component="div" size="xs" hiddenFrom="sm"><Subject entry={entry} /><div><Foreign text={entry.detail} most={300} /></div></Text>
                    </Table.Td>
                    <Table.Td visibleFrom="sm"><Subject entry={entry} /></Table.Td>
                    <Table.Td visibleFrom="sm"><Foreign text={entry.detail} most={300} /></Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Paper>
      {audit.hasNextPage && (
        <Group justify="center">
          <Button variant="default" size="xs" loading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>{t("common.more")}</Button>
        </Group>
      )}
    </Stack>
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
  if (/^task\./.test(entry.action) && /^\d+$/.test(entry.object)) return <TextLink to={`/tasks/${entry.object}`}><span className="mono nowrap">{entry.object}</span></TextLink>;
  if (/^(config|schedule)\./.test(entry.action)) return <TextLink to={`/task-configs/${part(entry.object)}`}><Foreign text={entry.object} /></TextLink>;
  if (/^\d+$/.test(entry.object)) return <span className="mono nowrap">{entry.object}</span>;
  return <Foreign text={entry.object} />;
}
