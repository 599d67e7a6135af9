import { Alert, Badge, Group, Paper, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get } from "../api";
import { Field, Foreign, Loading, PageHead, Panel } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { between, count, duration, Time } from "../format";
import { useLive } from "../live";
import type { Cluster as Found, Queues } from "../types";

const SKEW_SECONDS = 5;

export default function Cluster(): ReactNode {
  const { t } = useTranslation();
  const { state } = useLive();
  const often = state === "paused" ? (false as const) : 3_000;
  const cluster = useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => get<Found>("/cluster", {}, signal), refetchInterval: often });
  const queues = useQuery({ queryKey: ["queues"], queryFn: ({ signal }) => get<Queues>("/queues", {}, signal), refetchInterval: often });
  if (cluster.isPending) return <Loading />;
  const found = cluster.data;
  const skew = found ? Math.abs(between(found.now, cluster.dataUpdatedAt)) : 0;
  return (
    <Stack>
      <PageHead title={t("nav.cluster")} />
      <ProblemAlert error={cluster.error ?? queues.error} onRetry={() => void cluster.refetch()} />
      {found && (
        <>
          {found.leader === null && <Alert color="yellow" title={t("cluster.no_leader")}>{t("cluster.no_leader_text")}</Alert>}
          {skew > SKEW_SECONDS && <Alert color="yellow">{t("cluster.skew", { by: duration(skew) })}</Alert>}
          <Panel>
            <SimpleGrid cols={{ base: 2, sm: 3 }}>
              <Field label={t("cluster.leader")}>{found.leader ?? "–"}</Field>
              <Field label={t("cluster.term")}>{count(found.term)}</Field>
              <Field label={t("cluster.store")}>{found.store}</Field>
              <Field label={t("cluster.coordinator")}>{found.coordinator}</Field>
              <Field label={t("cluster.version")}>{found.version}</Field>
              <Field label={t("cluster.clock")}><Time at={found.now} /></Field>
            </SimpleGrid>
          </Panel>
          <Paper withBorder>
            <Table.ScrollContainer minWidth={480}>
              <Table data-testid="nodes">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("cluster.node")}</Table.Th>
                    <Table.Th>{t("cluster.roles")}</Table.Th>
                    <Table.Th>{t("cluster.version")}</Table.Th>
                    <Table.Th>{t("cluster.seen")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {found.nodes.map((node) => (
                    <Table.Tr key={node.id}>
                      <Table.Td><Group gap="xs"><Foreign text={node.id} />{node.is_leader && <Badge variant="light" tt="none">{t("cluster.leader")}</Badge>}</Group></Table.Td>
                      <Table.Td><Group gap={4}>{node.roles.map((role) => <Badge key={role} variant="outline" color="gray" tt="none">{role}</Badge>)}</Group></Table.Td>
                      <Table.Td>{node.version}</Table.Td>
                      <Table.Td><Time at={node.seen_at} /></Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          </Paper>
        </>
      )}
      {queues.data && <Waiting queues={queues.data} />}
    </Stack>
  );
}

function Waiting({ queues }: { queues: Queues }): ReactNode {
  const { t } = useTranslation();
  const levels = queues.items.filter((queue) => queue.ready > 0);
  return (
    <Panel title={t("cluster.waiting")}>
      <SimpleGrid cols={{ base: 2, sm: 4 }} mb="sm">
        <Field label={t("cluster.ready")}>{count(queues.items.reduce((sum, queue) => sum + queue.ready, 0))}</Field>
        <Field label={t("cluster.delayed")}>{count(queues.delayed)}</Field>
        <Field label={t("cluster.assigned")}>{count(queues.assigned)}</Field>
        <Field label={t("cluster.running")}>{count(queues.running)}</Field>
      </SimpleGrid>
      {levels.length === 0 ? (
        <Text size="sm" c="dimmed">{t("cluster.nothing_waits")}</Text>
      ) : (
        <Table>
          <Table.Tbody>
            {levels.map((queue) => (
              <Table.Tr key={queue.priority}>
                <Table.Td>{t("tasks.priority")} {queue.priority}</Table.Td>
                <Table.Td className="number">{count(queue.ready)}</Table.Td>
                <Table.Td>{queue.oldest_age_seconds === null ? "–" : t("cluster.oldest", { age: duration(queue.oldest_age_seconds) })}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Panel>
  );
}
