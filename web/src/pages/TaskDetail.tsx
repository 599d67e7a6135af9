import { Alert, Badge, Button, Group, Menu, Modal, NativeSelect, Progress as Bar, SimpleGrid, Stack, Table, Tabs, Text, Textarea, Tooltip } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Copy, Pencil, RotateCcw, XCircle } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError, get, part, patch, post } from "../api";
import { getCluster } from "../cluster";
import { COLORS, CopyIcon, Empty, Field, Foreign, hue, isTelling, JsonView, Key, Loading, PageHead, paint, Panel, StatusBadge, TaskDuration, TextLink, TextView } from "../components/bits";
import { CODE } from "../components/code";
import { useConfirm } from "../components/confirm";
import { LogView, useRecord } from "../components/LogView";
import { notifyDone, notifyNothing, notifyProblem, ProblemAlert } from "../components/problem";
import { useWorkerName, WorkerName } from "../components/WorkerName";
import { copy } from "../copy";
import { absolute, between, count, duration, Elapsed, percent, Time, useNow, useTimeKind } from "../format";
import { useServerWords } from "../i18n";
import { parse, writeJson } from "../json";
import { useLive } from "../live";
import { useOnce } from "../once";
import { go } from "../router";
import { useSession } from "../session";
import { oneLine, python, shell } from "../text";
import type { Explanation, LogLine, Task, TaskStatus } from "../types";
import { useUnsaved } from "../unsaved";

const WAITING: readonly TaskStatus[] = ["PENDING", "RETRYING"];
const LAST_PLACE = 99.4; // percent: what took no time at the end is seen all the same
const ENDED: readonly TaskStatus[] = ["SUCCESS", "FAILED", "TIMEOUT", "CANCELLED"];

export default function TaskDetail({ id }: { id: string }): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const task = useQuery({
    queryKey: ["task", id],
    queryFn: ({ signal }) => get<Task>(`/tasks/${part(id)}`, {}, signal),
    refetchInterval: (query) => (query.state.data && ENDED.includes(query.state.data.status) ? false : every),
  });
  const record = useRecord(id);
  const name = task.data && (task.data.name || task.data.type);
  useEffect(() => {
    if (name) document.title = `${oneLine(name, 60)} · ${t("nav.tasks")} · Rota`;
  }, [name, t]);
  if (task.isPending) return <Loading />;
  if (task.isError && !task.data) {
    const isGone = task.error instanceof ApiError && task.error.problem.status === 404;
    return (
      <Stack>
        <ProblemAlert error={task.error} onRetry={isGone ? undefined : () => void task.refetch()} />
        <TextLink to="/tasks">{t("nav.tasks")}</TextLink>
      </Stack>
    );
  }
  const shown = task.data;
  if (!shown) return null;
  return (
    <Stack>
      <Head task={shown} />
      {!ENDED.includes(shown.status) && <Why task={shown} />}
      {shown.progress && shown.status === "PROCESSING" && (
        <Panel title={t("task.progress")} aside={<Text size="sm">{percent(shown.progress.fraction)}</Text>}>
          <Bar value={shown.progress.fraction * 100} animated aria-label={t("task.progress")} />
          <Text size="sm" c="dimmed" mt={4}>
            <Foreign text={shown.progress.message} />
          </Text>
        </Panel>
      )}
      <Facts task={shown} lines={record.lines} />
      {isTelling(shown) && <Failure task={shown} />}
      <Timeline task={shown} lines={record.lines} />
      <Panel>
        <Tabs defaultValue="logs" keepMounted={false}>
          <Tabs.List mb="sm">
            <Tabs.Tab value="logs">{t("task.logs")}</Tabs.Tab>
            <Tabs.Tab value="input">{t("task.input")}</Tabs.Tab>
            <Tabs.Tab value="output">{t("task.output")}</Tabs.Tab>
            <Tabs.Tab value="metadata">{t("task.metadata")}</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="logs">
            <LogView record={record} name={`task-${id}.log`} />
          </Tabs.Panel>
          <Tabs.Panel value="input">
            <JsonView value={shown.payload} name={`task-${id}-input`} />
          </Tabs.Panel>
          <Tabs.Panel value="output">
            {shown.result ? <JsonView value={shown.result.data} name={`task-${id}-output`} /> : <Empty title={t("task.no_output")} />}
          </Tabs.Panel>
          <Tabs.Panel value="metadata">
            {Object.keys(shown.metadata).length === 0 ? (
              <Empty title={t("task.no_metadata")} text={t("task.no_metadata_text")} />
            ) : (
              <Table>
                <Table.Tbody>
                  {Object.entries(shown.metadata).map(([key, value]) => (
                    <Table.Tr key={key}>
                      <Table.Th><Foreign text={key} /></Table.Th>
                      <Table.Td>
                        <TextLink to={`/tasks?fact=${part(`${key}=${value}`)}`}><Foreign text={value} most={500} /></TextLink>
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            )}
          </Tabs.Panel>
        </Tabs>
      </Panel>
    </Stack>
  );
}

function Head({ task }: { task: Task }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [isEditing, setEditing] = useState(false);
  const [isBusy, once] = useOnce();
  const isEnded = ENDED.includes(task.status);

  const act = async (action: "cancel" | "retry"): Promise<void> => {
    if (action === "cancel" && !(await confirm({ title: t("task.cancel_title"), text: t("task.cancel_text"), action: t("task.cancel_action") }))) return;
    if (action === "retry" && task.status === "SUCCESS" && !(await confirm({ title: t("task.again_title"), text: t("task.again_text"), action: t("task.again_action") }))) return;
    await once(action, async (key) => {
      const changed = await post<Task>(`/tasks/${task.id}:${action}`, {}, key);
      notifyDone(t(action === "cancel" ? "task.cancelled" : "task.retried"));
      if (action === "retry") go(`/tasks/${changed.id}`);
    }).catch(notifyProblem);
    void queries.invalidateQueries();
  };

  return (
    <PageHead
      title={<Group gap="sm"><Foreign text={task.name || task.type} most={100} /><StatusBadge status={task.status} /></Group>}
      note={
        <Group gap={4}>
          <TextLink to={`/task-configs/${part(task.type)}`}><Foreign text={task.type} /></TextLink>·<span className="mono">{task.id}</span>
          <CopyIcon text={task.id} />
        </Group>
      }
    >
      <CopyAs task={task} />
      {can("operator") && (
        <>
          <Button variant="default" size="xs" leftSection={<Pencil size={14} />} onClick={() => setEditing(true)}>
            {t("task.run_edited")}
          </Button>
          {isEnded ? (
            <Button size="xs" leftSection={<RotateCcw size={14} />} loading={isBusy} onClick={() => void act("retry")}>
              {t("tasks.retry")}
            </Button>
          ) : (
            <Button size="xs" color="red" variant="light" leftSection={<XCircle size={14} />} loading={isBusy} onClick={() => void act("cancel")}>
              {t("tasks.cancel")}
            </Button>
          )}
          {isEditing && <EditedRun task={task} onClose={() => setEditing(false)} />}
        </>
      )}
    </PageHead>
  );
}

function EditedRun({ task, onClose }: { task: Task; onClose: () => void }): ReactNode {
  const { t } = useTranslation();
  const [given] = useState(() => writeJson(task.payload, 2));
  const [text, setText] = useState(given);
  const [error, setError] = useState<unknown>(null);
  const payload = parse(text);
  const isChanged = text !== given;
  const { leave, release } = useUnsaved(isChanged);
  const close = (): void => leave(onClose);
  const [isBusy, once] = useOnce();
  const run = (): Promise<void> =>
    once(text, async (key) => {
      const made = await post<Task>(`/tasks/${task.id}:retry`, { payload: payload.value }, key);
      release();
      onClose();
      go(`/tasks/${made.id}`);
    }).catch(setError);
  return (
    <Modal opened onClose={close} closeOnEscape={!isChanged} closeOnClickOutside={!isChanged} title={t("task.run_edited")} size="lg" closeButtonProps={{ "aria-label": t("common.close") }}>
      <Stack>
        <Textarea label={t("task.input")} autosize minRows={8} maxRows={20} value={text} onChange={(event) => setText(event.currentTarget.value)} error={payload.problem} styles={CODE} data-autofocus />
        <ProblemAlert error={error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{t("common.back")}</Button>
          <Button disabled={payload.problem !== null || payload.value === null} loading={isBusy} onClick={() => void run()}>{t("configs.run_now")}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function CopyAs({ task }: { task: Task }): ReactNode {
  const { t } = useTranslation();
  // Written when they are asked for: a payload may be large, and the page is drawn anew every second.
  const forms = {
    curl: () => `curl "$ROTA_URL/api/v1/tasks" -H "Authorization: Bearer $ROTA_TOKEN" -H "Content-Type: application/json" -d ${shell(writeJson({ type: task.type, payload: task.payload }))}`,
    CLI: () => `rota task submit ${shell(task.type)} --payload ${shell(writeJson(task.payload))} --wait`,
    Python: () => `import rota\n\nwith rota.Client() as client:\n    client.submit(${JSON.stringify(task.type)}, ${python(task.payload)})\n`,
  };
  const take = (write: () => string): void => {
    void copy(write()).then(() => notifyDone(t("common.copied")), () => notifyNothing(t("common.not_copied")));
  };
  return (
    <Menu>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<Copy size={14} />}>
          {t("task.copy_as")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {Object.entries(forms).map(([name, write]) => (
          <Menu.Item key={name} onClick={() => take(write)}>
            {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Why({ task }: { task: Task }): ReactNode {
  const { t, i18n } = useTranslation();
  const { every } = useLive();
  const why = useQuery({
    queryKey: ["task", task.id, "why", task.status],
    queryFn: ({ signal }) => get<Explanation>(`/tasks/${task.id}/explain`, {}, signal),
    refetchInterval: every,
  });
  const words = useServerWords(loadWhy);
  const kind = useTimeKind();
  const worker = why.data?.worker_id ?? null;
  const name = useWorkerName(worker);
  const lacksWorker = why.data?.reason === "no_worker_for_type";
  const cluster = useQuery({ queryKey: ["cluster"], queryFn: ({ signal }) => getCluster(signal), enabled: lacksWorker });
  if (!why.data) return null;
  const reason = (isDraining(why.data) ? "workers_draining" : why.data.reason) as "running";
  const isAlone = cluster.data?.coordinator === "memory"; // one process, which no other worker can join
  const said = explain(why.data, task, { words, zone: kind === "utc" ? "UTC" : undefined, isAlone, outcome: t(`status.${why.data.status}`) });
  const isHelped = lacksWorker && cluster.data && !isAlone && (why.data.executor ?? "local") === "local"; // by a worker that has the code
  const sentence = worker === null ? said : said.replaceAll(worker, oneLine(name ?? worker, 60));
  const title = i18n.exists(`why.${reason}`) ? t(`why.${reason}`) : why.data.reason;
  return (
    <Alert role="note" variant="light" color={hue(task.status)} title={`${t("task.why")} ${title}`} data-testid="why">
      <Text size="sm" className="foreign">{sentence}</Text>
      {isHelped && <Text size="sm" className="mono foreign" mt={4}>rota worker --app {oneLine(why.data.module ?? "FILE.py")}</Text>}
      {why.data.reason === "workers_busy" && <TextLink to="/workers">{t("nav.workers")}</TextLink>}
    </Alert>
  );
}

/** Whether nobody takes the task though they might have room: somebody drained them all. */
const isDraining = ({ reason, draining, workers }: Explanation): boolean => reason === "workers_busy" && draining === workers;

const loadWhy = (): Promise<{ default: Readonly<Record<string, string>> }> => import("../locales/why.zh-CN.json");

interface Terms {
  words: Readonly<Record<string, string>>;
  zone: string | undefined;
  isAlone: boolean;
  outcome: string; // the status in the language of the visitor
}

/** Why a task is where it is: in the words of the catalog, or in those of the server, with times as the visitor has them. */
function explain(why: Explanation, task: Task, { words, zone, isAlone, outcome }: Terms): string {
  const { due_at: dueAt } = why;
  const form = formOf(why, isAlone);
  if (words[form] === undefined) return oneLine(why.sentence.replace(INSTANT, (at) => absolute(at, zone)), 1000);
  const template = [form, why.overlap && `skips_${why.overlap}`, why.keeps_firing && "keeps_firing"].map((name) => (name && words[name]) || "").join("");
  const error = [why.error_code, why.error_message].filter(Boolean).join(": ");
  const values: Record<string, unknown> = { ...why, type: task.type, at: dueAt ? absolute(dueAt, zone) : "–", error, outcome };
  return oneLine(template.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name] ?? "–")), 1000);
}

function formOf(why: Explanation, isAlone: boolean): string {
  const { reason, status, attempt, executor, module, error_code: failed } = why;
  if (reason === "no_worker_for_type") {
    const lack = module ? "_module" : (executor ?? "local") === "local" ? "" : "_executor";
    return (isAlone ? "no_worker_alone" : reason) + lack;
  }
  if (reason === "ended" && failed) return "ended_error";
  if (isDraining(why)) return "workers_draining";
  if (reason === "workers_busy" && why.draining) return "workers_busy_draining";
  if (reason !== "not_due" || attempt === 0) return reason;
  return status === "RETRYING" ? "not_due_retrying" : "not_due_returned";
}

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

const RERUN = /^\{"rerun_as": "(\d+)"\}$/; // how the record of a task tells of one that was made of it
const SHOWN_RERUNS = 3; // the newest, until all are asked for

function Facts({ task, lines }: { task: Task; lines: readonly LogLine[] }): ReactNode {
  const { t } = useTranslation();
  const reruns = useMemo(() => lines.flatMap((line) => RERUN.exec(line.detail)?.[1] ?? []), [lines]);
  return (
    <Panel>
      <SimpleGrid cols={{ base: 2, sm: 3, md: 5 }}>
        <Field label={t("tasks.attempt")}>{task.attempt} / {task.max_retries + 1}</Field>
        <Field label={t("tasks.duration")}><TaskDuration task={task} /></Field>
        <Field label={t("task.timeout")}>{duration(task.timeout_seconds)}</Field>
        <Priority task={task} />
        <Field label={t("tasks.worker")}><WorkerName id={task.worker_id} /></Field>
        <Field label={t("tasks.created")}><Time at={task.created_at} /></Field>
        <Field label={t("task.scheduled")}><Time at={task.scheduled_at} /></Field>
        <Field label={t("task.started")}><Time at={task.started_at} /></Field>
        <Field label={t("task.completed")}><Time at={task.completed_at} /></Field>
        {task.next_attempt_at && <Field label={t("task.next_attempt")}><Time at={task.next_attempt_at} /></Field>}
        {task.rerun_of && <Field label={t("task.rerun_of")}><TaskLink id={task.rerun_of} /></Field>}
        {reruns.length > 0 && <Reruns ids={reruns} />}
      </SimpleGrid>
    </Panel>
  );
}

/** The tasks that were made of this one. */
function Reruns({ ids }: { ids: readonly string[] }): ReactNode {
  const { t } = useTranslation();
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? ids : ids.slice(-SHOWN_RERUNS);
  return (
    <Field label={ids.length > 1 ? t("task.rerun_as_many", { number: count(ids.length) }) : t("task.rerun_as")}>
      <div className="reruns">{shown.map((id) => <div key={id}><TaskLink id={id} /></div>)}</div>
      {shown.length < ids.length && <Button variant="subtle" size="compact-xs" px={0} onClick={() => setWhole(true)}>{t("common.show_all")}</Button>}
    </Field>
  );
}

function TaskLink({ id }: { id: string }): ReactNode {
  return <TextLink to={`/tasks/${id}`}><span className="mono">{id}</span></TextLink>;
}

/** Of a task that waits it can be changed. */
function Priority({ task }: { task: Task }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const queries = useQueryClient();
  if (!can("operator") || !WAITING.includes(task.status)) return <Field label={t("tasks.priority")}>{task.priority}</Field>;
  const change = async (priority: number): Promise<void> => {
    try {
      await patch(`/tasks/${task.id}`, { priority });
      notifyDone(t("task.priority_set"));
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["task", task.id] });
  };
  return <NativeSelect label={t("tasks.priority")} size="xs" w={90} data={[..."0123456789"]} value={String(task.priority)} onChange={(event) => void change(Number(event.currentTarget.value))} />;
}

function Failure({ task }: { task: Task }): ReactNode {
  const { t } = useTranslation();
  if (!task.error) return null;
  const { code, message, detail, retryable } = task.error;
  const color = task.status === "SUCCESS" || task.status === "RETRYING" ? "yellow" : "red";
  return (
    <Panel title={<Group gap="xs">{t("task.error")}<Badge color={color} variant="light" tt="none">{code}</Badge>{!retryable && <Badge color="gray" variant="light" tt="none">{t("task.final")}</Badge>}</Group>}>
      <Stack gap="xs">
        {message && <Text size="sm" fw={600}><Foreign text={message} most={2000} /></Text>}
        {detail && <TextView text={detail} name={`task-${task.id}-error.txt`} />}
      </Stack>
    </Panel>
  );
}

interface Stretch {
  status: TaskStatus;
  attempt: number;
  worker: string | null;
  from: string;
  to: string | null;
  message: string;
}

/** What state the task was in from when to when, from its record. */
function stretches(lines: readonly LogLine[]): Stretch[] {
  const found: Stretch[] = [];
  for (const line of lines) {
    if (line.to_status === null) continue;
    const last = found.at(-1);
    if (last) {
      last.to = line.at;
      last.message ||= line.message;
    }
    found.push({ status: line.to_status, attempt: line.attempt, worker: line.worker_id, from: line.at, to: null, message: "" });
  }
  return found;
}

function Timeline({ task, lines }: { task: Task; lines: readonly LogLine[] }): ReactNode {
  const { t } = useTranslation();
  const all = useMemo(() => stretches(lines), [lines]);
  const isEnded = ENDED.includes(task.status);
  const now = useNow(isEnded ? 60_000 : 1000);
  const first = all[0];
  if (!first) return null;
  const last = all.at(-1);
  const until = isEnded && last ? new Date(last.from).getTime() : now;
  const total = Math.max(between(first.from, until), 0.001);
  const drawn = all.filter((one) => !ENDED.includes(one.status));
  const attempts = drawn.filter((one) => one.status === "PROCESSING");
  return (
    <Panel title={t("task.timeline")} aside={<Text size="sm" c="dimmed">{duration(total)}</Text>}>
      <div className="lane" role="img" aria-label={t("task.timeline")}>
        {drawn.map((one) => {
          const length = between(one.from, one.to ?? until);
          const left = Math.min((between(first.from, one.from) / total) * 100, LAST_PLACE);
          return (
            <Tooltip key={one.from + one.status} label={`${t(`status.${one.status}`)} · ${duration(length)}`}>
              <div className="lane-part" style={{ left: `${left}%`, width: `${Math.max((length / total) * 100, 0.3)}%`, background: paint(one.status), opacity: one.status === "PENDING" ? 0.35 : 1 }} />
            </Tooltip>
          );
        })}
      </div>
      <Group gap="md" mt="xs">
        {[...new Set(drawn.map((one) => one.status))].map((status) => (
          <Key key={status} color={COLORS[status]}>{t(`status.${status}`)}</Key>
        ))}
      </Group>
      {attempts.length > 0 && (
        <Table.ScrollContainer minWidth={480}>
          <Table mt="xs" data-testid="attempts" className="cards">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("tasks.attempt")}</Table.Th>
                <Table.Th>{t("task.started")}</Table.Th>
                <Table.Th>{t("tasks.duration")}</Table.Th>
                <Table.Th>{t("tasks.worker")}</Table.Th>
                <Table.Th>{t("task.outcome")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {attempts.slice(-50).map((one) => {
                const next = all[all.indexOf(one) + 1];
                return (
                  <Table.Tr key={one.from}>
                    <Table.Td className="number">#{one.attempt}</Table.Td>
                    <Table.Td data-label={t("task.started")}><Time at={one.from} /></Table.Td>
                    <Table.Td className="number" data-label={t("tasks.duration")}><Elapsed from={one.from} to={one.to} /></Table.Td>
                    <Table.Td data-label={t("tasks.worker")}><WorkerName id={one.worker} /></Table.Td>
                    <Table.Td data-label={t("task.outcome")}>
                      <Outcome attempt={one} next={next} wasRetried={next?.status === "RETRYING" && all[all.indexOf(next) + 1]?.status === "PROCESSING"} />
                    </Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Panel>
  );
}

/** How an attempt ended: one that came back to the queue with the reason in words, which is no state to wonder about. */
function Outcome({ attempt, next, wasRetried }: { attempt: Stretch; next: Stretch | undefined; wasRetried: boolean }): ReactNode {
  const { t, i18n } = useTranslation();
  const { message } = attempt;
  const reason = message as "worker_lost";
  if (next?.status === "PENDING" && i18n.exists(`task.sent_back.${reason}`)) return <StatusBadge status="PENDING">{t(`task.sent_back.${reason}`)}</StatusBadge>;
  return (
    <>
      <StatusBadge status={next?.status ?? "PROCESSING"}>{wasRetried ? t("task.was_retried") : undefined}</StatusBadge>
      {message && <Text size="xs" c="dimmed"><Foreign text={message} /></Text>}
    </>
  );
}
