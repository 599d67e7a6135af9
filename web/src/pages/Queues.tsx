import { ActionIcon, Alert, Badge, Button, Group, Paper, Popover, Stack, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Ban, Pencil, Play } from "lucide-react";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, part, post } from "../api";
import { Empty, Foreign, Known, PageHead, Panel, TextLink } from "../components/bits";
import { redefine } from "../components/configs";
import { useConfirm } from "../components/confirm";
import { Levels } from "../components/Levels";
import { NumberField } from "../components/NumberField";
import { notifyDone, notifyProblem, ProblemAlert, Problems } from "../components/problem";
import { count, duration, exact } from "../format";
import { useLive } from "../live";
import { useSession } from "../session";
import type { Page, Queues as Found, QueueType, QueueTypes, TaskConfig } from "../types";

const MOST_CONFIGS = 1000;
const NOTHING = { ready: 0, delayed: 0, blocked: 0, running: 0, oldest_age_seconds: null };

interface Row extends QueueType {
  config: TaskConfig | undefined;
}

/** Types of which something lives, or whose flow somebody steers; with `all`, every type. */
function rowsOf(types: QueueTypes | undefined, configs: readonly TaskConfig[], all: boolean): Row[] {
  const known = new Map(configs.map((config) => [config.type, config]));
  const rows: Row[] = (types?.items ?? []).map((one) => ({ ...one, config: known.get(one.type) }));
  const listed = new Set(rows.map((row) => row.type));
  for (const config of configs) {
    const isSteered = !config.enabled || config.max_concurrent !== null || config.rate_per_second !== null;
    if (!listed.has(config.type) && (all || isSteered)) rows.push({ type: config.type, ...NOTHING, config });
  }
  return rows;
}

export default function Queues(): ReactNode {
  const { t } = useTranslation();
  const { state } = useLive();
  const often = state === "paused" ? (false as const) : 5_000;
  const [isAll, setAll] = useState(false);
  const [text, setText] = useState("");
  const queues = useQuery({ queryKey: ["queues"], queryFn: ({ signal }) => get<Found>("/queues", {}, signal), refetchInterval: often });
  const types = useQuery({ queryKey: ["queues", "types"], queryFn: ({ signal }) => get<QueueTypes>("/queues/types", {}, signal), refetchInterval: often });
  const configs = useQuery({
    queryKey: ["configs", "limits"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: MOST_CONFIGS }, signal),
    refetchInterval: often === false ? false : 15_000,
  });
  const isPart = (configs.data?.next_cursor ?? null) !== null;
  const rows = rowsOf(types.data, configs.data?.items ?? [], isAll).filter((row) => row.type.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <Stack>
      <PageHead title={t("nav.queues")} note={t("queues.about")} />
      <Problems of={[queues, types, configs]} />
      {queues.data && <Levels queues={queues.data} setAside={types.data?.set_aside ?? null} />}
      <Panel
        title={t("queues.by_type")}
        aside={
          <Group gap="sm">
            <TextInput data-search size="xs" placeholder={t("configs.search")} aria-label={t("configs.search")} value={text} onChange={(event) => setText(event.currentTarget.value)} />
            <Switch label={t("queues.all")} checked={isAll} onChange={(event) => setAll(event.currentTarget.checked)} />
          </Group>
        }
      >
        {types.data && !types.data.complete && <Alert color="yellow" mb="sm">{t("queues.incomplete")}</Alert>}
        {isPart && <Alert color="yellow" mb="sm">{t("queues.part", { number: count(configs.data?.items.length ?? 0) })}</Alert>}
        <Known of={[types, configs]}>
          {rows.length === 0 ? (
            <Empty title={t("queues.empty")} text={t("queues.empty_text")} command="rota queue types" />
          ) : (
            <Types rows={rows} isPart={isPart} />
          )}
        </Known>
      </Panel>
    </Stack>
  );
}

function Types({ rows, isPart }: { rows: readonly Row[]; isPart: boolean }): ReactNode {
  const { t } = useTranslation();
  return (
    <Paper>
      <Table.ScrollContainer minWidth={760}>
        <Table data-testid="queue-types" className="cards">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("configs.type")}</Table.Th>
              <Table.Th ta="right">{t("queues.due")}</Table.Th>
              <Table.Th ta="right">{t("queues.oldest")}</Table.Th>
              <Table.Th ta="right">{t("cluster.delayed")}</Table.Th>
              <Table.Th ta="right">{t("cluster.running")}</Table.Th>
              <Table.Th>{t("queues.limits")}</Table.Th>
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => (
              <TypeRow key={row.type} row={row} isPart={isPart} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Paper>
  );
}

function TypeRow({ row, isPart }: { row: Row; isPart: boolean }): ReactNode {
  const { t } = useTranslation();
  const tasks = `/tasks?type=${part(row.type)}`;
  const linked = (value: number, states: string): ReactNode =>
    value === 0 ? "0" : <TextLink to={`${tasks}${states}`}><span className="number">{count(value)}</span></TextLink>;
  return (
    <Table.Tr data-type={row.type}>
      <Table.Td miw={140}>
        <Group gap="xs" wrap="nowrap">
          <TextLink to={`/task-configs/${part(row.type)}`}><Foreign text={row.type} most={60} /></TextLink>
          {row.config && !row.config.enabled && <Badge color="gray" variant="light" tt="none" miw="max-content">{t("configs.paused")}</Badge>}
        </Group>
      </Table.Td>
      <Table.Td ta="right" data-label={t("queues.due")}>{linked(row.ready, "&status=PENDING&status=RETRYING")}</Table.Td>
      <Table.Td ta="right" className="number nowrap" data-label={t("queues.oldest")}>{row.oldest_age_seconds === null ? "–" : duration(row.oldest_age_seconds)}</Table.Td>
      <Table.Td ta="right" data-label={t("cluster.delayed")}>{linked(row.delayed + row.blocked, "&status=PENDING&status=RETRYING&status=BLOCKED")}</Table.Td>
      <Table.Td ta="right" data-label={t("cluster.running")}>{linked(row.running, "&status=PROCESSING")}</Table.Td>
      <Table.Td className="nowrap" data-label={t("queues.limits")}><Limits config={row.config} isPart={isPart} /></Table.Td>
      <Table.Td ta="right">{row.config && <EnabledButton config={row.config} />}</Table.Td>
    </Table.Tr>
  );
}

function Limits({ config, isPart }: { config: TaskConfig | undefined; isPart: boolean }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  if (!config) return <Text size="sm" c="dimmed">{isPart ? "–" : t("queues.undefined")}</Text>;
  const said = [
    config.max_concurrent === null ? null : t("queues.at_once", { number: count(config.max_concurrent) }),
    config.rate_per_second === null ? null : t("queues.per_second", { number: exact(config.rate_per_second) }),
  ].filter((one) => one !== null);
  return (
    <Group gap={4} wrap="nowrap">
      <Text size="sm" c={said.length === 0 ? "dimmed" : undefined}>{said.length === 0 ? t("configs.no_limit") : said.join(" · ")}</Text>
      {can("admin") && <LimitsEditor config={config} />}
    </Group>
  );
}

function EnabledButton({ config }: { config: TaskConfig }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const flip = async (): Promise<void> => {
    const question = { title: t("configs.pause_title"), text: t("configs.pause_text"), action: t("configs.pause") };
    if (config.enabled && !(await confirm(question))) return;
    try {
      await post(`/task-configs/${part(config.type)}:${config.enabled ? "pause" : "resume"}`);
      notifyDone(t(config.enabled ? "configs.is_paused" : "configs.is_resumed"));
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };
  if (!can("operator")) return null;
  return (
    <Button size="compact-xs" variant="default" leftSection={config.enabled ? <Ban size={12} /> : <Play size={12} />} onClick={() => void flip()}>
      {t(config.enabled ? "configs.pause" : "configs.resume")}
    </Button>
  );
}

/** Changes the two limits and nothing else, unless somebody changed the type meanwhile. */
function LimitsEditor({ config }: { config: TaskConfig }): ReactNode {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [base, setBase] = useState<TaskConfig | null>(null); // as it was when this was opened
  const [atOnce, setAtOnce] = useState<number | string>("");
  const [rate, setRate] = useState<number | string>("");
  const [error, setError] = useState<unknown>(null);
  const flip = (): void => {
    setAtOnce(config.max_concurrent ?? "");
    setRate(config.rate_per_second ?? "");
    setError(null);
    setBase(base ? null : config);
  };
  const store = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (!base) return;
    try {
      await redefine(base, { max_concurrent: atOnce === "" ? null : Number(atOnce), rate_per_second: rate === "" ? null : Number(rate) });
      notifyDone(t("queues.limits_set"));
      setBase(null);
    } catch (problem) {
      setError(problem);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };
  return (
    <Popover opened={base !== null} onDismiss={() => setBase(null)} withArrow trapFocus width={280} position="bottom-end">
      <Popover.Target>
        <ActionIcon size="sm" variant="subtle" color="gray" onClick={flip} aria-label={t("queues.limits")} title={t("queues.change_limits")}><Pencil size={14} /></ActionIcon>
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={(event) => void store(event)}>
          <Stack gap="xs">
            <NumberField size="xs" label={t("configs.max_concurrent")} placeholder={t("configs.no_limit")} min={1} allowDecimal={false} value={atOnce} onChange={setAtOnce} />
            <NumberField size="xs" label={t("configs.rate")} placeholder={t("configs.no_limit")} min={0} value={rate} onChange={setRate} />
            <ProblemAlert error={error} />
            <Button size="xs" type="submit">{t("common.apply")}</Button>
          </Stack>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
