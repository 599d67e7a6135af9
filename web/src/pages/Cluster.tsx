import { Alert, Badge, Group, Paper, SimpleGrid, Stack, Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get } from "../api";
import { getCluster } from "../cluster";
import { Field, Foreign, Loading, PageHead, Panel } from "../components/bits";
import { Elections } from "../components/Elections";
import { Levels } from "../components/Levels";
import { Problems } from "../components/problem";
import { count, duration, taken, Time } from "../format";
import { useLive } from "../live";
import type { Queues, QueueTypes } from "../types";

const SKEW_SECONDS = 5;
const SLOW_SECONDS = 0.5; // to answer one small question

export default function Cluster(): ReactNode {
  const { t } = useTranslation();
  const { state } = useLive();
  const often = state === "paused" ? (false as const) : 3_000;
  const cluster = useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => getCluster(signal), refetchInterval: often });
  const queues = useQuery({ queryKey: ["queues"], queryFn: ({ signal }) => get<Queues>("/queues", {}, signal), refetchInterval: often });
  const types = useQuery({ queryKey: ["queues", "types"], queryFn: ({ signal }) => get<QueueTypes>("/queues/types", {}, signal), refetchInterval: often });
  if (cluster.isPending) return <Loading />;
  const found = cluster.data;
  const skew = found?.clocks_apart_seconds ?? 0;
  return (
    <Stack>
      <PageHead title={t("nav.cluster")} />
      <Problems of={[cluster, queues, types]} />
      {found && (
        <>
          {!found.coordinator_answers ? (
            <Alert color="red" title={t("cluster.silent")}>{t("cluster.silent_text")}</Alert>
          ) : (
            found.leader === null && <Alert color="yellow" title={t("cluster.no_leader")}>{t("cluster.no_leader_text")}</Alert>
          )}
          {skew > SKEW_SECONDS && <Alert color="yellow">{t("cluster.skew", { by: duration(skew) })}</Alert>}
          <Panel>
            <SimpleGrid cols={{ base: 2, sm: 3 }}>
              <Field label={t("cluster.leader")}>{found.leader ?? "–"}</Field>
              <Field label={t("cluster.term")}>{count(found.term)}</Field>
              <Field label={t("cluster.store")}><Health kind={found.store} seconds={found.store_seconds} /></Field>
              <Field label={t("cluster.coordinator")}><Health kind={found.coordinator} seconds={found.coordinator_seconds} isSilent={!found.coordinator_answers} /></Field>
              <Field label={t("cluster.version")}>{found.version}</Field>
              <Field label={t("cluster.clock")}><Time at={found.now} /></Field>
            </SimpleGrid>
          </Panel>
          <Paper withBorder>
            <Table.ScrollContainer minWidth={480}>
              <Table data-testid="nodes" className="cards">
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
                      <Table.Td data-label={t("cluster.roles")}><Group gap={4}>{node.roles.map((role) => <Badge key={role} variant="outline" color="gray" tt="none">{role}</Badge>)}</Group></Table.Td>
                      <Table.Td data-label={t("cluster.version")}>{node.version}</Table.Td>
                      <Table.Td data-label={t("cluster.seen")}><Time at={node.seen_at} /></Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          </Paper>
        </>
      )}
      {queues.data && types.data && <Levels queues={queues.data} setAside={types.data.set_aside} />}
      {found && <Elections cluster={found} />}
    </Stack>
  );
}

/** What kind it is, and whether and how fast it answers. */
function Health({ kind, seconds, isSilent = false }: { kind: string; seconds: number | null; isSilent?: boolean }): ReactNode {
  const { t } = useTranslation();
  const isSlow = seconds !== null && seconds > SLOW_SECONDS;
  return (
    <Group gap="xs">
      {kind}
      {(isSilent || seconds !== null) && (
        <Badge variant="dot" color={isSilent ? "red.6" : isSlow ? "yellow.6" : "teal.6"} tt="none">
          {isSilent || seconds === null ? t("cluster.no_answer") : t("cluster.answers", { time: taken(seconds) })}
        </Badge>
      )}
    </Group>
  );
}
