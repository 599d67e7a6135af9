// What a type was defined as before, what each change was, and the way back.

import { Badge, Button, Group, Modal, NativeSelect, Stack, Table, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { GitCompareArrows, RotateCcw } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, part, post } from "../api";
import { Time } from "../format";
import { writeJson } from "../json";
import { useSession } from "../session";
import type { Page, TaskConfig } from "../types";
import { Foreign, Panel, TextView } from "./bits";
import { useConfirm } from "./confirm";
import { notifyDone, notifyProblem, ProblemAlert } from "./problem";

const FIRST = 10;
const MOST = 100; // the server keeps no more
const NAMED = 6; // fields of a change that are named in the list
const TOLD_ONLY = new Set(["type", "tenant", "next_fire_at", "revision", "created_at", "updated_at", "updated_by"]); // no part of the definition
const WHOLE = new Set(["payload"]); // its keys mean nothing here

export interface Change {
  field: string;
  before: unknown;
  after: unknown;
}

function* fieldsOf(config: TaskConfig): Generator<[string, unknown]> {
  for (const [name, value] of Object.entries(config)) {
    if (TOLD_ONLY.has(name)) continue;
    if (typeof value === "object" && value !== null && !Array.isArray(value) && !WHOLE.has(name)) {
      for (const [key, inner] of Object.entries(value as object)) yield [`${name}.${key}`, inner];
    } else if (value !== null && value !== undefined) {
      yield [name, value];
    }
  }
}

/** What the second says differently from the first. */
export function changesBetween(before: TaskConfig, after: TaskConfig): Change[] {
  const old = new Map(fieldsOf(before));
  const now = new Map(fieldsOf(after));
  return [...new Set([...now.keys(), ...old.keys()])]
    .filter((field) => JSON.stringify(old.get(field)) !== JSON.stringify(now.get(field)))
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }));
}

/** `current`: the revision that stands now; null: the type was deleted. */
export function Revisions({ type, current }: { type: string; current: number | null }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const [limit, setLimit] = useState(FIRST);
  const [compared, setCompared] = useState<number | null>(null);
  const back = useRollBack(type, current);
  const found = useQuery({
    queryKey: ["configs", "revisions", type, current, limit],
    queryFn: ({ signal }) => get<Page<TaskConfig>>(`/task-configs/${part(type)}/revisions`, { limit: limit + 1 }, signal),
    retry: false,
  });
  const all = found.data?.items ?? [];
  if (all.length === 0) return current === null ? null : <ProblemAlert error={found.error} />;
  return (
    <Panel title={t(current === null ? "revisions.of_deleted" : "revisions.title")}>
      <Table.ScrollContainer minWidth={760}>
        <Table data-testid="revisions" className="cards">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("configs.revision")}</Table.Th>
              <Table.Th>{t("revisions.when")}</Table.Th>
              <Table.Th>{t("revisions.who")}</Table.Th>
              <Table.Th>{t("revisions.what")}</Table.Th>
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {all.slice(0, limit).map((one, place) => (
              <Table.Tr key={one.revision} data-revision={one.revision}>
                <Table.Td><Group gap="xs" wrap="nowrap"><span className="number">{one.revision}</span>{one.revision === current && <Badge variant="light" tt="none" miw="max-content">{t("revisions.current")}</Badge>}</Group></Table.Td>
                <Table.Td data-label={t("revisions.when")}><Time at={one.updated_at} /></Table.Td>
                <Table.Td miw={110} data-label={t("revisions.who")}>{one.updated_by ? <Foreign text={one.updated_by} most={40} /> : <Text size="sm" c="dimmed">{t("revisions.program")}</Text>}</Table.Td>
                <Table.Td miw={160} data-label={t("revisions.what")}><Summary before={all[place + 1]} after={one} /></Table.Td>
                <Table.Td>
                  <Group gap="xs" justify="flex-end" wrap="nowrap">
                    {all.length > 1 && <Button size="compact-xs" variant="default" leftSection={<GitCompareArrows size={12} />} onClick={() => setCompared(one.revision)}>{t("revisions.compare")}</Button>}
                    {can("admin") && one.revision !== current && <Button size="compact-xs" variant="light" leftSection={<RotateCcw size={12} />} onClick={() => void back(one)}>{t("revisions.roll_back")}</Button>}
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {all.length > limit && <Button mt="xs" size="compact-sm" variant="subtle" onClick={() => setLimit(MOST)}>{t("common.more")}</Button>}
      {compared !== null && <Compare all={all} chosen={compared} onClose={() => setCompared(null)} />}
    </Panel>
  );
}

function useRollBack(type: string, current: number | null): (wanted: TaskConfig) => Promise<void> {
  const { t } = useTranslation();
  const confirm = useConfirm();
  const queries = useQueryClient();
  return async ({ revision }) => {
    if (!(await confirm({ title: t("revisions.roll_back_title", { revision }), text: t("revisions.roll_back_text"), action: t("revisions.roll_back") }))) return;
    try {
      const stored = await post<TaskConfig>(`/task-configs/${part(type)}:rollback`, { revision, expected_revision: current ?? 0 });
      notifyDone(t("revisions.rolled_back", { revision: stored.revision }));
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };
}

function Summary({ before, after }: { before: TaskConfig | undefined; after: TaskConfig }): ReactNode {
  const { t } = useTranslation();
  if (!before) return <Text size="sm" c="dimmed">{t(after.revision === 1 ? "revisions.first" : "revisions.earliest")}</Text>;
  const fields = changesBetween(before, after).map((change) => change.field);
  const named = fields.slice(0, NAMED).join(", ");
  return <Text size="sm"><Foreign text={fields.length > NAMED ? `${named} +${fields.length - NAMED}` : named || t("revisions.nothing")} /></Text>;
}

function Compare({ all, chosen, onClose }: { all: readonly TaskConfig[]; chosen: number; onClose: () => void }): ReactNode {
  const { t } = useTranslation();
  const place = all.findIndex((one) => one.revision === chosen);
  const other = (all[place + 1] ?? all[place - 1])?.revision ?? chosen;
  const [before, setBefore] = useState(Math.min(other, chosen));
  const [after, setAfter] = useState(Math.max(other, chosen));
  const find = (revision: number): TaskConfig | undefined => all.find((one) => one.revision === revision);
  const [old, now] = [find(before), find(after)];
  const data = all.map((one) => String(one.revision));
  const changes = old && now ? changesBetween(old, now) : [];
  return (
    <Modal opened onClose={onClose} title={t("revisions.compare")} size="xl" closeButtonProps={{ "aria-label": t("common.close") }}>
      <Stack>
        <Group>
          <NativeSelect label={t("revisions.before")} data={data} value={String(before)} onChange={(event) => setBefore(Number(event.currentTarget.value))} />
          <NativeSelect label={t("revisions.after")} data={data} value={String(after)} onChange={(event) => setAfter(Number(event.currentTarget.value))} />
        </Group>
        {changes.length === 0 ? (
          <Text size="sm" c="dimmed">{t("revisions.nothing")}</Text>
        ) : (
          <Table data-testid="diff" layout="fixed" className="cards">
            <Table.Thead>
              <Table.Tr>
                <Table.Th w="22%">{t("revisions.field")}</Table.Th>
                <Table.Th>{t("revisions.before")}</Table.Th>
                <Table.Th>{t("revisions.after")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {changes.map((change) => (
                <Table.Tr key={change.field}>
                  <Table.Td className="diff-field"><Foreign text={change.field} /></Table.Td>
                  <Table.Td className="diff-before" data-label={t("revisions.before")}><Value value={change.before} name={`${change.field}-${before}`} /></Table.Td>
                  <Table.Td className="diff-after" data-label={t("revisions.after")}><Value value={change.after} name={`${change.field}-${after}`} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Stack>
    </Modal>
  );
}

function Value({ value, name }: { value: unknown; name: string }): ReactNode {
  const { t } = useTranslation();
  if (value === undefined || value === null) return <Text size="sm" c="dimmed">{t("revisions.unset")}</Text>;
  return <TextView text={writeJson(value, 2)} name={`${name}.json`} />;
}
