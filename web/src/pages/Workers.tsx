import { Badge, Button, Group, Paper, Popover, Progress, Slider, Stack, Switch, Table, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, patch, post } from "../api";
import { getCluster } from "../cluster";
import { Empty, Foreign, Known, PageHead, TextLink } from "../components/bits";
import { useConfirm } from "../components/confirm";
import { NumberField } from "../components/NumberField";
import { notifyDone, notifyProblem, ProblemAlert } from "../components/problem";
import { between, count, duration, Time, useNow } from "../format";
import { useLive } from "../live";
import { useQueryState } from "../router";
import { useSession } from "../session";
import type { Page, Worker } from "../types";

const LATE_SECONDS = 12;
const MOST_CAPACITY = 1000; // the server takes no more
const SHOWN_TYPES = 6;
const OF_MODULE = "@local.";

export default function Workers(): ReactNode {
  const { t } = useTranslation();
  const { state } = useLive();
  const [query, change] = useQueryState();
  const isAll = query.get("all") === "true";
  const workers = useQuery({
    queryKey: ["workers", "list", isAll],
    queryFn: ({ signal }) => get<Page<Worker>>("/workers", { all: isAll, limit: 1000 }, signal),
    refetchInterval: state === "paused" ? false : 3_000,
  });
  const cluster = useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => getCluster(signal) });
  const versions = new Map((cluster.data?.nodes ?? []).map((node) => [node.id, node.version]));
  const items = workers.data?.items ?? [];
  return (
    <Stack>
      <PageHead title={t("nav.workers")} note={t("workers.about")}>
        <Switch label={t("workers.all")} checked={isAll} onChange={(event) => change({ all: event.currentTarget.checked ? "true" : null })} />
      </PageHead>
      <ProblemAlert error={workers.error} onRetry={() => void workers.refetch()} />
      <Paper withBorder>
        <Known of={[workers]}>
          {items.length === 0 ? (
            <Empty title={t("workers.empty")} text={t("workers.empty_text")} command="rota worker --app app.py" />
          ) : (
            <Table.ScrollContainer minWidth={720}>
              <Table data-testid="workers" className="cards">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("workers.name")}</Table.Th>
                    <Table.Th>{t("workers.state")}</Table.Th>
                    <Table.Th w={140}>{t("workers.load")}</Table.Th>
                    <Table.Th>{t("workers.heartbeat")}</Table.Th>
                    <Table.Th>{t("cluster.version")}</Table.Th>
                    <Table.Th>{t("workers.types")}</Table.Th>
                    <Table.Th />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {items.map((worker) => (
                    <Row key={worker.id} worker={worker} version={versions.get(worker.name)} />
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </Known>
      </Paper>
    </Stack>
  );
}

/** `version`: of its process, where that is known by the same name. */
function Row({ worker, version }: { worker: Worker; version: string | undefined }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const now = useNow();
  const age = Math.max(between(worker.seen_at, now), 0);
  const state = worker.retired_at ? "retired" : !worker.alive ? "lost" : worker.draining ? "draining" : "ready";
  const color = { retired: "gray.5", lost: "red.6", draining: "yellow.6", ready: "teal.6" }[state];
  const share = worker.capacity > 0 ? (worker.load / worker.capacity) * 100 : 0;
  return (
    <Table.Tr data-worker={worker.id}>
      <Table.Td miw={180}>
        <TextLink to={`/tasks?worker=${worker.id}`}><Foreign text={worker.name} /></TextLink>
        <Group gap="0 8px" fz="xs" c="dimmed"><Foreign text={worker.address} /><span className="mono nowrap">{worker.id}</span></Group>
        <Group gap={4}>{Object.entries(worker.labels).slice(0, 8).map(([key, value]) => <Badge key={key} size="xs" variant="outline" color="gray" tt="none"><Foreign text={`${key}=${value}`} most={40} /></Badge>)}</Group>
      </Table.Td>
      <Table.Td data-label={t("workers.state")}><Badge variant="dot" color={color} tt="none" miw="max-content">{t(`workers.${state}`)}</Badge></Table.Td>
      <Table.Td data-label={t("workers.load")}>
        <TextLink to={`/tasks?worker=${worker.id}&status=PROCESSING`} title={t("workers.held")}><span className="number">{count(worker.load)} / {count(worker.capacity)}</span></TextLink>
        <Progress value={share} color={share >= 100 ? "orange" : "indigo"} aria-label={t("workers.load")} miw={60} />
      </Table.Td>
      <Table.Td data-label={t("workers.heartbeat")}>
        {worker.retired_at ? <Time at={worker.retired_at} /> : <Text size="sm" className="number nowrap" c={age > LATE_SECONDS ? "red" : undefined}>{t("workers.ago", { age: duration(Math.floor(age)) })}</Text>}
      </Table.Td>
      <Table.Td data-label={t("cluster.version")} className="nowrap">{version ?? "–"}</Table.Td>
      <Table.Td maw={320} data-label={t("workers.types")}><Types types={worker.types} /></Table.Td>
      <Table.Td ta="right">{can("operator") && worker.alive && !worker.retired_at && <Actions worker={worker} />}</Table.Td>
    </Table.Tr>
  );
}

/** `*` is every type, `@http` every type that is executed so, and `@local.shop` what names a function of shop. */
function Types({ types }: { types: string[] }): ReactNode {
  const { t } = useTranslation();
  const [isWhole, setWhole] = useState(false);
  const say = (type: string): string => {
    if (type === "*") return t("workers.any_type");
    if (type.startsWith(OF_MODULE)) return t("workers.functions_of", { module: type.slice(OF_MODULE.length) });
    return type.startsWith("@") ? t("workers.any_of", { executor: type.slice(1) }) : type;
  };
  const shown = isWhole ? types : types.slice(0, SHOWN_TYPES);
  return (
    <Group gap={4}>
      {shown.map((type) => <Badge key={type} size="sm" variant="light" color="gray" tt="none"><Foreign text={say(type)} most={30} /></Badge>)}
      {types.length > shown.length && <Button size="compact-xs" variant="subtle" color="gray" onClick={() => setWhole(true)}>{t("forecast.more", { number: count(types.length - shown.length) })}</Button>}
    </Group>
  );
}

function Actions({ worker }: { worker: Worker }): ReactNode {
  const { t } = useTranslation();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [capacity, setCapacity] = useState<number | string>(worker.capacity);
  const [isOpen, setOpen] = useState(false);
  const widest = Math.min(Math.max(worker.capacity * 3, 20), MOST_CAPACITY);
  const run = async (act: () => Promise<unknown>, done: string): Promise<void> => {
    try {
      await act();
      notifyDone(done);
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["workers"] });
  };
  const drain = async (): Promise<void> => {
    if (!(await confirm({ title: t("workers.drain_title"), text: t("workers.drain_text"), action: t("workers.drain") }))) return;
    await run(() => post(`/workers/${worker.id}:drain`), t("workers.is_draining"));
  };
  return (
    <Group gap="xs" justify="flex-end" wrap="nowrap">
      <Popover opened={isOpen} onChange={setOpen} withArrow trapFocus>
        <Popover.Target>
          <Button size="compact-xs" variant="default" onClick={() => { setCapacity(worker.capacity); setOpen(!isOpen); }}>{t("workers.capacity")}</Button>
        </Popover.Target>
        <Popover.Dropdown>
          <Slider mb="sm" min={1} max={widest} value={Math.min(Number(capacity) || 1, widest)} onChange={setCapacity} thumbLabel={t("workers.capacity")} label={null} />
          <Group gap="xs" align="flex-end">
            <NumberField label={t("workers.capacity_label")} min={1} max={MOST_CAPACITY} allowDecimal={false} value={capacity} onChange={setCapacity} w={150} size="xs" />
            <Button size="xs" disabled={!(Number(capacity) >= 1 && Number(capacity) <= MOST_CAPACITY)} onClick={() => { setOpen(false); void run(() => patch(`/workers/${worker.id}`, { capacity: Number(capacity) }), t("workers.capacity_set")); }}>{t("common.apply")}</Button>
          </Group>
        </Popover.Dropdown>
      </Popover>
      {worker.draining ? (
        <Button size="compact-xs" variant="light" onClick={() => void run(() => post(`/workers/${worker.id}:resume`), t("workers.is_resumed"))}>{t("workers.resume")}</Button>
      ) : (
        <Button size="compact-xs" variant="light" color="red" onClick={() => void drain()}>{t("workers.drain")}</Button>
      )}
    </Group>
  );
}
