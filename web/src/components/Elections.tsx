import { Badge, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get } from "../api";
import { count, Elapsed, Time } from "../format";
import { useSession } from "../session";
import type { Cluster, Election, Page } from "../types";
import { Empty, Foreign, Known, Panel, TextLink } from "./bits";
import { ProblemAlert } from "./problem";

const SHOWN = 20;
const LOOK_EVERY = 2_000; // milliseconds, until a new leader, which dispatches first, is on record
const COLORS = { resigned: "gray.6", lost: "yellow.6", silent: "red.6" } as const;
const REASONS = {
  "the lease is over": "lease",
  "a newer term began": "newer",
  "not renewed in time": "late",
  "its duties ended": "duties",
  "its duties were cancelled": "duties",
} as const;

/** Who led, from when to when, and how that ended. Asked anew when somebody else leads, and until that is on record. */
export function Elections({ cluster }: { cluster: Cluster }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const found = useQuery({
    queryKey: ["elections", cluster.term, cluster.leader],
    queryFn: ({ signal }) => get<Page<Election>>("/cluster/elections", { limit: SHOWN }, signal),
    placeholderData: (before) => before,
    refetchInterval: (query) => (cluster.leader !== null && query.state.data?.items[0]?.term !== cluster.term ? LOOK_EVERY : false),
  });
  const items = found.data?.items ?? [];
  return (
    <Panel title={t("cluster.elections")} aside={can("admin") && <TextLink to="/audit?scope=cluster">{t("cluster.in_audit")}</TextLink>}>
      <Text size="sm" c="dimmed" mb="xs">{t("cluster.elections_note")}</Text>
      <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />
      <Known of={[found]}>
        {items.length === 0 ? (
          <Empty title={t("cluster.no_elections")} text={t("cluster.no_elections_text")} />
        ) : (
          <Table.ScrollContainer minWidth={480}>
            <Table data-testid="elections" className="cards">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("cluster.leader")}</Table.Th>
                  <Table.Th>{t("cluster.term")}</Table.Th>
                  <Table.Th>{t("cluster.begun")}</Table.Th>
                  <Table.Th>{t("cluster.led_for")}</Table.Th>
                  <Table.Th>{t("cluster.ended")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {items.map((one) => {
                  const leads = one.ending === null && one.term === cluster.term && one.node === cluster.leader;
                  return (
                    <Table.Tr key={one.term}>
                      <Table.Td><Foreign text={one.node} /></Table.Td>
                      <Table.Td data-label={t("cluster.term")} className="number">{count(one.term)}</Table.Td>
                      <Table.Td data-label={t("cluster.begun")}><Time at={one.begun_at} /></Table.Td>
                      <Table.Td data-label={t("cluster.led_for")} className="number">{leads || one.ended_at !== null ? <Elapsed from={one.begun_at} to={one.ended_at} /> : "–"}</Table.Td>
                      <Table.Td data-label={t("cluster.ended")}><End election={one} leads={leads} /></Table.Td>
                    </Table.Tr>
                  );
                })}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Known>
    </Panel>
  );
}

function End({ election: { ending, ended_at: endedAt, reason }, leads }: { election: Election; leads: boolean }): ReactNode {
  const { t } = useTranslation();
  if (leads) return <Badge variant="light" tt="none">{t("cluster.leads")}</Badge>;
  if (ending === null) return <Badge variant="dot" color="gray.6" tt="none">{t("cluster.unknown")}</Badge>;
  const known = Object.hasOwn(REASONS, reason) ? REASONS[reason as keyof typeof REASONS] : null;
  return (
    <>
      <Group gap="xs">
        <Badge variant="dot" color={COLORS[ending]} tt="none">{t(`cluster.endings.${ending}`)}</Badge>
        <Text size="sm" component="span"><Time at={endedAt} /></Text>
      </Group>
      {reason && <Text size="xs" c="dimmed">{known ? t(`cluster.reasons.${known}`) : <Foreign text={reason} most={200} />}</Text>}
    </>
  );
}
