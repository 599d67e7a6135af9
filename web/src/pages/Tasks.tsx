import { ActionIcon, Badge, Button, Checkbox, Group, Menu, MultiSelect, NativeSelect, Paper, Stack, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ArrowUpDown, ChevronRight, ChevronsLeft, RotateCcw, SlidersHorizontal, X, XCircle } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, post } from "../api";
import { getCluster } from "../cluster";
import { Empty, Foreign, ink, isTelling, Known, PageHead, StatusBadge, TaskDuration, TextLink } from "../components/bits";
import { useConfirm } from "../components/confirm";
import { notifyDone, notifyNothing, notifyProblem, ProblemAlert } from "../components/problem";
import { SavedViews } from "../components/SavedViews";
import { TaskExport } from "../components/TaskExport";
import { Typed } from "../components/Typed";
import { WorkerName } from "../components/WorkerName";
import { absolute, count, Time, useTimeKind } from "../format";
import { useLive } from "../live";
import { useOnce } from "../once";
import { go, useQueryState } from "../router";
import { useSession } from "../session";
import { oneLine } from "../text";
import { type BulkCount, type Page, STATUSES, type Task, type TaskConfig, type TaskStatus } from "../types";

const LIMIT = 50;
const SINCE = { "15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800 } as const;
const SPAN = "span"; // from one moment to another
const COLUMNS = ["type", "attempt", "duration", "worker", "priority", "created"] as const;
type Column = (typeof COLUMNS)[number];
const KEPT = "rota-task-columns";
const CLOCK_SLACK_MS = 100; // another node may tell the time of the store a little later

/** What the address says should be shown. */
interface Filter {
  status: string[];
  type: string[];
  worker: string;
  priority: string[];
  q: string;
  metadata: Record<string, string>;
  created_after?: string;
  created_before?: string;
}

function readFilter(query: URLSearchParams): Filter {
  const given = query.get("since") ?? "";
  const since = Object.hasOwn(SINCE, given) ? SINCE[given as keyof typeof SINCE] : undefined;
  return {
    status: query.getAll("status"),
    type: query.getAll("type"),
    worker: query.get("worker") ?? "",
    priority: query.getAll("priority"),
    q: query.get("q") ?? "",
    metadata: Object.fromEntries(factsOf(query.getAll("fact"))),
    created_after: since ? new Date(Math.floor(Date.now() / 60_000) * 60_000 - since * 1000).toISOString() : moment(query, "from"),
    created_before: moment(query, "to"),
  };
}

const moment = (query: URLSearchParams, name: "from" | "to"): string | undefined => {
  const given = Date.parse(query.get(name) ?? "");
  return query.get("since") !== SPAN || Number.isNaN(given) ? undefined : new Date(given).toISOString();
};

function toQuery(filter: Filter): Record<string, string | string[] | undefined> {
  const { metadata, ...rest } = filter;
  return { ...rest, ...Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value])) };
}

export default function Tasks(): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const [query, change] = useQueryState();
  const cursor = query.get("cursor") ?? "";
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [columns, setColumns] = useColumns();
  const { can } = useSession();
  const tasks = useQuery({
    queryKey: ["tasks", "list", query.toString()],
    queryFn: ({ signal }) => get<Page<Task>>("/tasks", { ...toQuery(readFilter(query)), limit: LIMIT, cursor }, signal),
    refetchInterval: every,
  });
  useEffect(() => setChosen(new Set()), [query]);
  const items = tasks.data?.items ?? [];
  const isFiltered = [...query.keys()].some((name) => name !== "cursor");
  const following = tasks.data?.next_cursor ?? null;
  const canGoOn = following !== null && !tasks.isPlaceholderData; // in the list of another filter that place means nothing
  const isShort = following !== null && items.length < LIMIT; // the server looked far back and has not found enough
  const older = (): void => {
    const next = new URLSearchParams(query);
    next.set("cursor", following ?? "");
    go(`/tasks?${next.toString()}`); // a step of its own: the browser's way back leads to the page before
  };

  return (
    <Stack>
      <PageHead title={t("nav.tasks")}>
        {isFiltered && (
          <Button variant="subtle" size="xs" leftSection={<X size={14} />} onClick={() => go("/tasks", { replace: true })}>
            {t("tasks.clear")}
          </Button>
        )}
        <ColumnsMenu columns={columns} onChange={setColumns} />
        <SavedViews
          query={query}
          columns={[...columns]}
          onChoose={(view) => {
            setColumns(new Set(COLUMNS.filter((column) => view.columns.includes(column))));
            go(view.query ? `/tasks?${view.query}` : "/tasks");
          }}
        />
        <TaskExport query={() => toQuery(readFilter(query))} />
      </PageHead>
      <Filters query={query} change={(changes) => change({ cursor: null, ...changes })} />
      <ProblemAlert error={tasks.error} onRetry={() => void tasks.refetch()} />
      {can("operator") && items.length > 0 && <Bulk query={query} chosen={chosen} types={[...new Set(items.filter((task) => chosen.has(task.id)).map((task) => task.type))]} onDone={() => setChosen(new Set())} />}
      <Paper withBorder>
        <Known of={[tasks]}>
          {items.length === 0 ? (
            isShort ? (
              <Empty title={t("tasks.none_yet")} text={t("tasks.none_yet_text")}>
                <Button variant="light" size="xs" disabled={!canGoOn} onClick={older}>
                  {t("tasks.search_on")}
                </Button>
              </Empty>
            ) : isFiltered ? (
              <Empty title={t("tasks.none_match")} text={query.get("q") ? t("tasks.what_is_searched") : undefined}>
                <Button variant="light" size="xs" onClick={() => go("/tasks")}>
                  {t("tasks.clear")}
                </Button>
              </Empty>
            ) : (
              <Empty title={t("tasks.empty")} text={t("tasks.empty_text")} command="rota task submit sample_hello --wait" />
            )
          ) : (
            <List items={items} columns={columns} chosen={chosen} onChoose={setChosen} />
          )}
        </Known>
      </Paper>
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {items.length > 0 && t("tasks.shown", { number: count(items.length) })}
        </Text>
        <Group gap="xs">
          <Button variant="default" size="xs" leftSection={<ChevronsLeft size={14} />} disabled={!cursor} onClick={() => change({ cursor: null })}>
            {t("tasks.newest")}
          </Button>
          <Button
            variant="default"
            size="xs"
            rightSection={<ChevronRight size={14} />}
            disabled={!canGoOn}
            onClick={older}
          >
            {t("tasks.older")}
          </Button>
        </Group>
      </Group>
    </Stack>
  );
}

type Change = (changes: Record<string, string | string[] | null>) => void;

function Filters({ query, change }: { query: URLSearchParams; change: Change }): ReactNode {
  const { t } = useTranslation();
  const types = useQuery({
    queryKey: ["configs", "types"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: 1000 }, signal),
    staleTime: 30_000,
  });
  const known = new Set([...(types.data?.items ?? []).map((config) => config.type), ...query.getAll("type")]);
  return (
    <Group gap="xs" align="flex-start" className="filters">
      <Typed label={t("tasks.search")} hint={t("tasks.search_hint")} value={query.get("q") ?? ""} onChange={(q) => change({ q })} icon />
      <MultiSelect
        label={t("tasks.status")}
        placeholder={query.has("status") ? undefined : t("tasks.any")}
        data={STATUSES.map((value) => ({ value, label: t(`status.${value}`) }))}
        value={query.getAll("status")}
        onChange={(status) => change({ status })}
        clearable
        className="filter-choice"
        clearButtonProps={{ "aria-label": t("tasks.clear") }}
      />
      <MultiSelect
        label={t("tasks.type")}
        placeholder={query.has("type") ? undefined : t("tasks.any")}
        data={[...known].map((value) => ({ value, label: oneLine(value, 60) }))}
        value={query.getAll("type")}
        onChange={(type) => change({ type })}
        searchable
        clearable
        className="filter-choice"
        clearButtonProps={{ "aria-label": t("tasks.clear") }}
      />
      <NativeSelect
        label={t("tasks.since")}
        value={query.get("since") ?? ""}
        onChange={(event) => change({ since: event.currentTarget.value, from: null, to: null })}
        data={[{ value: "", label: t("tasks.any") }, ...Object.keys(SINCE).map((value) => ({ value, label: t(`tasks.last_${value as keyof typeof SINCE}`) })), { value: SPAN, label: t("tasks.span") }]}
      />
      {query.get("since") === SPAN && (
        <>
          <Moment label={t("tasks.from")} value={moment(query, "from")} onChange={(from) => change({ from })} />
          <Moment label={t("tasks.to")} value={moment(query, "to")} onChange={(to) => change({ to })} />
        </>
      )}
      <NativeSelect
        label={t("tasks.priority")}
        value={query.get("priority") ?? ""}
        onChange={(event) => change({ priority: event.currentTarget.value })}
        data={[{ value: "", label: t("tasks.any") }, ..."9876543210"].map((one) => (typeof one === "string" ? { value: one, label: one } : one))}
      />
      <Typed
        label={t("tasks.metadata")}
        hint="order=42"
        value={spellFacts(factsOf(query.getAll("fact")))}
        toValue={(text) => spellFacts(readFacts(text))}
        onChange={(text) => change({ fact: [...readFacts(text)].map(([key, value]) => `${key}=${value}`) })}
      />
      {query.get("worker") && (
        <Badge variant="light" size="lg" tt="none" mt={28} rightSection={<ActionIcon size="xs" variant="transparent" aria-label={t("tasks.clear")} onClick={() => change({ worker: null })}><X size={12} /></ActionIcon>}>
          {t("tasks.worker")}: {oneLine(query.get("worker") ?? "", 30)}
        </Badge>
      )}
    </Group>
  );
}

/** A moment on the clock that the visitor chose; in the address it stands in UTC, and means the same to everybody. */
function Moment({ label, value, onChange }: { label: string; value: string | undefined; onChange: (iso: string | null) => void }): ReactNode {
  const isUtc = useTimeKind() === "utc";
  const shift = (ms: number): number => (isUtc ? 0 : new Date(ms).getTimezoneOffset() * 60_000);
  const shown = value === undefined ? "" : new Date(Date.parse(value) - shift(Date.parse(value))).toISOString().slice(0, 16);
  const read = (text: string): string | null => (text === "" ? null : new Date(isUtc ? `${text}Z` : text).toISOString());
  return <TextInput type="datetime-local" label={label} description={isUtc ? "UTC" : undefined} defaultValue={shown} key={String(isUtc)} onChange={(event) => onChange(read(event.currentTarget.value))} />;
}

type Facts = ReadonlyMap<string, string>; // of a key that is given twice the last value counts

function factsOf(pairs: readonly string[]): Facts {
  return new Map(pairs.filter((pair) => pair.includes("=")).map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

const FACT = /([^\s=]+)=("[^"]*"|\S+)/g;

/** Each key=value of a text, in which a value with spaces, or without anything, stands between quotation marks. */
function readFacts(text: string): Facts {
  return new Map([...text.matchAll(FACT)].map(([, key = "", value = ""]) => [key, value.replace(/^"([^"]*)"$/, "$1")]));
}

const spellFacts = (facts: Facts): string => [...facts].map(([key, value]) => `${key}=${/^$|\s/.test(value) ? `"${value}"` : value}`).join(" ");

interface ListProps {
  items: Task[];
  columns: ReadonlySet<Column>;
  chosen: ReadonlySet<string>;
  onChoose: (chosen: ReadonlySet<string>) => void;
}

function List({ items, columns, chosen, onChoose }: ListProps): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const flip = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChoose(next);
  };
  const isAll = items.every((task) => chosen.has(task.id));
  const cell = (column: Column): { visibleFrom?: string } | null => (columns.has(column) ? { visibleFrom: column === "type" ? undefined : "sm" } : null);
  return (
    <Table highlightOnHover data-testid="tasks">
      <Table.Thead>
        <Table.Tr>
          {can("operator") && (
            <Table.Th w={40}>
              <Checkbox aria-label={t("tasks.choose_all")} checked={isAll} indeterminate={!isAll && chosen.size > 0} onChange={() => onChoose(new Set(isAll ? [] : items.map((task) => task.id)))} />
            </Table.Th>
          )}
          <Table.Th>{t("tasks.name")}</Table.Th>
          <Table.Th>{t("tasks.status")}</Table.Th>
          {COLUMNS.map((column) => cell(column) && column !== "type" && <Table.Th key={column} {...cell(column)}>{t(`tasks.${column}`)}</Table.Th>)}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {items.map((task) => (
          <Table.Tr key={task.id} data-task={task.id}>
            {can("operator") && (
              <Table.Td>
                <Checkbox aria-label={t("tasks.choose", { id: task.id })} checked={chosen.has(task.id)} onChange={() => flip(task.id)} />
              </Table.Td>
            )}
            <Table.Td>
              <TextLink to={`/tasks/${task.id}`}>
                <Foreign text={task.name || task.type} most={80} />
              </TextLink>
              <Group gap="0 8px" fz="xs" c="dimmed">
                {task.name && columns.has("type") && <Foreign text={task.type} most={60} />}
                <span className="mono">{task.id}</span>
              </Group>
              {isTelling(task) && task.status !== "SUCCESS" && (
                <Text size="xs" style={{ color: ink("FAILED") }} lineClamp={1} visibleFrom="md">
                  <Foreign text={task.error.message ? `${task.error.code}: ${task.error.message}` : task.error.code} />
                </Text>
              )}
            </Table.Td>
            <Table.Td w={1}>
              <StatusBadge status={task.status} />
            </Table.Td>
            {columns.has("attempt") && <Table.Td visibleFrom="sm" className="number nowrap">{task.attempt === 0 ? "–" : `${task.attempt} / ${task.max_retries + 1}`}</Table.Td>}
            {columns.has("duration") && <Table.Td visibleFrom="sm" className="number"><TaskDuration task={task} /></Table.Td>}
            {columns.has("worker") && <Table.Td visibleFrom="sm"><WorkerName id={task.worker_id} /></Table.Td>}
            {columns.has("priority") && <Table.Td visibleFrom="sm" className="number">{task.priority}</Table.Td>}
            {columns.has("created") && <Table.Td visibleFrom="sm"><Text size="sm"><Time at={task.created_at} /></Text></Table.Td>}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

type Action = "retry" | "cancel" | "reprioritise";

/** From which states an action leads on; of what matches, nothing else is touched. */
const FIT: Record<Action, readonly TaskStatus[]> = {
  retry: ["SUCCESS", "FAILED", "TIMEOUT", "CANCELLED"],
  cancel: ["PENDING", "BLOCKED", "PROCESSING", "RETRYING"],
  reprioritise: ["PENDING", "BLOCKED", "RETRYING"],
};
const WORTH_A_RETRY: readonly TaskStatus[] = ["FAILED", "TIMEOUT"]; // where the filter names no state
const COUNT_TO = 1000; // more are "more than": nobody waits for an exact count of a million
const LEVELS = ["9", "8", "7", "6", "5", "4", "3", "2", "1", "0"] as const;

interface BulkProps {
  query: URLSearchParams;
  chosen: ReadonlySet<string>;
  types: readonly string[]; // of the chosen ones
  onDone: () => void;
}

/** Retry, cancel or make urgent what is chosen, or everything that matches, however many those are. */
function Bulk({ query, chosen, types, onDone }: BulkProps): ReactNode {
  const { t } = useTranslation();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [wantsAll, setAll] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [, once] = useOnce();
  const begun = useRef({ key: "", at: "" }); // by the clock of the server; a second try goes on with the first
  const describe = useDescribe();
  const filtered = describe(readFilter(query));
  const isAll = wantsAll && filtered !== ""; // every task there is would be a slip, which the server refuses
  const isNothing = !isAll && chosen.size === 0;

  /** What would be done, in words, with the number of tasks; null where there is nothing to do. */
  const ask = async (filter: Filter, states: readonly TaskStatus[], action: Action, level: string): Promise<string | null> => {
    const reruns = action === "retry" ? t("tasks.once_more_text") : "";
    if (!isAll) return [t(`tasks.${action}_text`, { level }), `${t("tasks.chosen", { number: count(chosen.size) })}.`, reruns].filter(Boolean).join(" ");
    const found = await countMatching(filter, states);
    if (found.number === 0 && !found.hasMore) return null;
    const number = found.number > 0 ? t(found.hasMore ? "tasks.matching_least" : "tasks.matching", { number: count(found.number) }) : "";
    const again = action === "retry" && states.includes("SUCCESS") ? t("tasks.again_text") : "";
    const named = states.map((one) => t(`status.${one}`)).join(", ");
    return [number, again, reruns, t(`tasks.${action}_all_text`, { level, states: named }), describe(filter)].filter(Boolean).join(" ");
  };

  const run = async (action: Action, level = ""): Promise<void> => {
    const filter = readFilter(query); // of now, as the list is: the last hour goes on with the clock
    const states = statesOf(filter, action);
    setBusy(true);
    try {
      const text = await ask(filter, states, action, level);
      if (text === null) return notifyNothing(t("tasks.none_fit"));
      const words = action === "retry" ? t("tasks.retry") : t(`tasks.${action}_action`, { level });
      if (!(await confirm({ title: t(`tasks.${action}_title`), text, action: words }))) return;
      const chosenOnes = isAll ? selection(filter, states) : { ids: [...chosen] };
      const wanted = level ? { ...chosenOnes, new_priority: Number(level) } : chosenOnes;
      await once(JSON.stringify([action, level, isAll ? query.toString() : [...chosen]]), async (key) => {
        if (begun.current.key !== key) begun.current = { key, at: (await getCluster()).now };
        const done = await apply(action, wanted, key);
        notifyDone(action === "retry" ? <NewTasks number={done.changed} to={toNew(query, begun.current.at, isAll ? null : types)} /> : t("tasks.bulk_done", { changed: count(done.changed), matched: count(done.matched) }));
        if (action === "retry") setAll(false); // a second time it would make them all once more
        onDone();
      });
    } catch (error) {
      notifyProblem(error);
    } finally {
      setBusy(false);
      void queries.invalidateQueries();
    }
  };

  return (
    <Group gap="xs">
      <Switch label={t("tasks.all_that_match")} checked={isAll} disabled={filtered === ""} onChange={(event) => setAll(event.currentTarget.checked)} />
      <Text size="sm" c="dimmed">
        {isAll ? filtered : t("tasks.chosen", { number: count(chosen.size) })}
        {filtered === "" && ` · ${t("tasks.all_needs_filter")}`}
      </Text>
      <Button size="xs" variant="light" leftSection={<RotateCcw size={14} />} disabled={isNothing} loading={isBusy} onClick={() => void run("retry")}>
        {t("tasks.retry")}
      </Button>
      <Menu>
        <Menu.Target>
          <Button size="xs" variant="light" leftSection={<ArrowUpDown size={14} />} disabled={isNothing} loading={isBusy}>
            {t("tasks.reprioritise")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {LEVELS.map((level) => (
            <Menu.Item key={level} onClick={() => void run("reprioritise", level)}>
              {level === "9" || level === "5" || level === "0" ? t(`tasks.level_${level}`) : level}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Button size="xs" variant="light" color="red" leftSection={<XCircle size={14} />} disabled={isNothing} loading={isBusy} onClick={() => void run("cancel")}>
        {t("tasks.cancel")}
      </Button>
    </Group>
  );
}

function NewTasks({ number, to }: { number: number; to: string }): ReactNode {
  const { t } = useTranslation();
  return (
    <>
      {t("tasks.new_tasks", { number: count(number) })} {number > 0 && <TextLink to={to}>{t("tasks.show_new")}</TextLink>}
    </>
  );
}

/** Where those are that were made since then, of the same filter, or of these types. */
function toNew(query: URLSearchParams, since: string, types: readonly string[] | null): string {
  const next = types === null ? new URLSearchParams(query) : new URLSearchParams(types.map((type) => ["type", type]));
  for (const name of ["status", "worker", "to", "cursor"]) next.delete(name);
  next.set("since", SPAN);
  next.set("from", new Date(Date.parse(since) - CLOCK_SLACK_MS).toISOString());
  return `/tasks?${next.toString()}`;
}

/** The states that an action is for: of those that are asked for the ones that it leads on from. */
function statesOf(filter: Filter, action: Action): readonly TaskStatus[] {
  if (filter.status.length === 0) return action === "retry" ? WORTH_A_RETRY : FIT[action];
  return FIT[action].filter((one) => filter.status.includes(one));
}

function selection(filter: Filter, states: readonly TaskStatus[]): object {
  return { ...filter, status: states, worker: filter.worker || null, priority: filter.priority.map(Number) };
}

/** What a filter says, in the words of the page; nothing where there is none. */
function useDescribe(): (filter: Filter) => string {
  const { t } = useTranslation();
  return ({ status, type, worker, priority, q, metadata, created_after: after, created_before: before }) => {
    const named: [string, string][] = [
      [t("tasks.search"), q],
      [t("tasks.status"), status.map((one) => t(`status.${one as TaskStatus}`, one)).join(" | ")],
      [t("tasks.type"), type.join(" | ")],
      [t("tasks.since"), [after && `≥ ${absolute(after)}`, before && `< ${absolute(before)}`].filter(Boolean).join(" ")],
      [t("tasks.priority"), priority.join(" | ")],
      [t("tasks.worker"), worker],
      [t("tasks.metadata"), Object.entries(metadata).map(([key, value]) => `${key}=${value}`).join(" ")],
    ];
    const said = named.filter(([, value]) => value !== "").map(([name, value]) => `${name}: ${value}`);
    return oneLine(said.join("; "), 200);
  };
}

/** How many an action is for, as far as one look goes. */
async function countMatching(filter: Filter, states: readonly TaskStatus[]): Promise<{ number: number; hasMore: boolean }> {
  if (states.length === 0) return { number: 0, hasMore: false };
  const page = await get<Page<Task>>("/tasks", { ...toQuery(filter), status: [...states], limit: COUNT_TO });
  return { number: page.items.length, hasMore: page.next_cursor !== null };
}

/** The server does up to ten thousand at a time, and says where to go on. */
async function apply(action: Action, wanted: object, key: string): Promise<{ changed: number; matched: number }> {
  const done = { changed: 0, matched: 0 };
  for (let cursor: string | null = null; ; ) {
    const part: BulkCount = await post<BulkCount>(`/tasks:${action}`, cursor === null ? wanted : { ...wanted, cursor }, key);
    done.changed += part.changed;
    done.matched += part.matched;
    if (!part.has_more || part.next_cursor === null) return done;
    cursor = part.next_cursor;
  }
}

function useColumns(): [ReadonlySet<Column>, (columns: ReadonlySet<Column>) => void] {
  const [columns, setColumns] = useState<ReadonlySet<Column>>(() => {
    const kept = window.localStorage.getItem(KEPT)?.split(",");
    return new Set(COLUMNS.filter((column) => (kept ? kept.includes(column) : column !== "priority")));
  });
  return [
    columns,
    (next) => {
      window.localStorage.setItem(KEPT, [...next].join(","));
      setColumns(next);
    },
  ];
}

function ColumnsMenu({ columns, onChange }: { columns: ReadonlySet<Column>; onChange: (columns: ReadonlySet<Column>) => void }): ReactNode {
  const { t } = useTranslation();
  return (
    <Menu closeOnItemClick={false}>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<SlidersHorizontal size={14} />} visibleFrom="sm">
          {t("tasks.columns")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {COLUMNS.map((column) => (
          <Menu.Item
            key={column}
            leftSection={<Checkbox size="xs" readOnly checked={columns.has(column)} tabIndex={-1} aria-hidden />}
            onClick={() => onChange(new Set(COLUMNS.filter((one) => (one === column ? !columns.has(one) : columns.has(one)))))}
          >
            {t(`tasks.${column}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
