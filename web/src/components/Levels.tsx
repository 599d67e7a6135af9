import { Progress, SimpleGrid, Table, Text } from "@mantine/core";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { count, duration } from "../format";
import type { Queues } from "../types";
import { Field, Panel, TextLink } from "./bits";

/** What waits and runs, and of what is ready how much at which priority. `setAside`: what is due and not in the queue; null: not known. */
export function Levels({ queues, setAside }: { queues: Queues; setAside: number | null }): ReactNode {
  const { t } = useTranslation();
  const levels = queues.items.filter((queue) => queue.ready > 0);
  const most = Math.max(1, ...levels.map((queue) => queue.ready));
  const ready = levels.reduce((sum, queue) => sum + queue.ready, 0);
  return (
    <Panel title={t("queues.waiting_and_running")}>
      <SimpleGrid cols={{ base: 2, sm: 4 }} mb="sm">
        <Field label={t("cluster.ready")}>{count(ready)}</Field>
        <Field label={t("cluster.delayed")}>{count(queues.delayed)}</Field>
        <Field label={t("cluster.assigned")}>{count(queues.assigned)}</Field>
        <Field label={t("cluster.running")}>{count(queues.running)}</Field>
      </SimpleGrid>
      {levels.length === 0 ? (
        setAside === 0 && <Text size="sm" c="dimmed">{t("cluster.nothing_waits")}</Text>
      ) : (
        <Table data-testid="levels" captionSide="top">
          <Table.Caption ta="left">{t("queues.ready_by_priority")}</Table.Caption>
          <Table.Tbody>
            {levels.map((queue) => (
              <Table.Tr key={queue.priority}>
                <Table.Td w={110}><TextLink to={`/tasks?status=PENDING&status=RETRYING&priority=${queue.priority}`}>{t("tasks.priority")} {queue.priority}</TextLink></Table.Td>
                <Table.Td visibleFrom="xs"><Progress value={(queue.ready / most) * 100} aria-label={`${t("tasks.priority")} ${queue.priority}`} /></Table.Td>
                <Table.Td w={90} ta="right" className="number">{count(queue.ready)}</Table.Td>
                <Table.Td w={190}>{queue.oldest_age_seconds === null ? "–" : t("cluster.oldest", { age: duration(queue.oldest_age_seconds) })}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {setAside !== null && setAside > 0 && <Text size="sm" c="dimmed">{t("queues.set_aside", { number: count(setAside) })}</Text>}
    </Panel>
  );
}
