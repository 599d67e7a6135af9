import { Badge, Button, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Ban, Pencil, Play, Trash2 } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError, get, part, post, remove } from "../api";
import { Empty, Field, Foreign, JsonView, Known, Loading, PageHead, Panel, StatusBadge, TextLink } from "../components/bits";
import { ConfigForm } from "../components/ConfigForm";
import { useConfirm } from "../components/confirm";
import { notifyDone, notifyProblem, ProblemAlert, ServerWords } from "../components/problem";
import { Revisions } from "../components/Revisions";
import { RunNow } from "../components/RunNow";
import { SchedulePause } from "../components/SchedulePause";
import { SchedulePreviewBox } from "../components/SchedulePreview";
import { duration, Time } from "../format";
import { useLive } from "../live";
import { go } from "../router";
import { useSession } from "../session";
import type { Occurrence, Page, SchedulePreview, Task, TaskConfig, TaskStatus } from "../types";
import { describeSchedule } from "./Configs";

const NEW = "+new"; // no type can have this name
const FIRES = 20;
const MOST_TASKS = 100; // tasks of the type that are looked through for those of its fires: others are submitted between

export default function ConfigDetail({ type }: { type: string }): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const [edited, setEdited] = useState<TaskConfig | null>(null); // as it was when somebody began to edit it
  const config = useQuery({
    queryKey: ["configs", "one", type],
    queryFn: ({ signal }) => get<TaskConfig>(`/task-configs/${part(type)}`, {}, signal),
    enabled: type !== NEW,
    refetchInterval: every,
  });
  if (type === NEW) return <ConfigForm config={null} onDone={(stored) => go(stored ? `/task-configs/${part(stored.type)}` : "/task-configs")} />;
  if (edited) {
    return (
      <ConfigForm
        config={edited}
        onDone={() => {
          setEdited(null);
          void config.refetch();
        }}
      />
    );
  }
  if (config.isPending) return <Loading />;
  if (!config.data) {
    const isGone = config.error instanceof ApiError && config.error.problem.status === 404;
    return (
      <Stack>
        <ProblemAlert error={config.error} onRetry={isGone ? undefined : () => void config.refetch()} />
        <TextLink to="/task-configs">{t("nav.configs")}</TextLink>
        {isGone && <Revisions type={type} current={null} />}
      </Stack>
    );
  }
  return <Shown config={config.data} onEdit={() => setEdited(config.data)} />;
}

function Shown({ config, onEdit }: { config: TaskConfig; onEdit: () => void }): ReactNode {
  const { t } = useTranslation();
  const { type, retry } = config;
  return (
    <Stack>
      <Head config={config} onEdit={onEdit} />
      {config.description && <Text size="sm"><Foreign text={config.description} most={2000} /></Text>}
      <Panel>
        <SimpleGrid cols={{ base: 2, sm: 3, md: 5 }}>
          <Field label={t("configs.executor")}><Foreign text={String(config.executor.type ?? "")} /></Field>
          <Field label={t("task.timeout")}>{duration(config.timeout_seconds)}</Field>
          <Field label={t("tasks.priority")}>{config.priority}</Field>
          <Field label={t("configs.max_concurrent")}>{config.max_concurrent ?? t("configs.no_limit")}</Field>
          <Field label={t("configs.rate")}>{config.rate_per_second ?? t("configs.no_limit")}</Field>
          <Field label={t("configs.retries")}>{retry.max_retries}</Field>
          <Field label={t("configs.delay")}>{duration(retry.delay_seconds)} · {t(`configs.${retry.strategy}`)}</Field>
          <Field label={t("configs.updated")}><Time at={config.updated_at} /></Field>
          <Field label={t("configs.revision")}>{config.revision}</Field>
          <Field label={t("nav.tasks")}><TextLink to={`/tasks?type=${part(type)}`}>{t("configs.its_tasks")}</TextLink></Field>
        </SimpleGrid>
      </Panel>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Panel title={t("configs.executor")}><JsonView value={config.executor} name={`${type}-executor`} /></Panel>
        <Panel title={t("configs.payload")}><JsonView value={config.payload} name={`${type}-payload`} /></Panel>
      </SimpleGrid>
      {config.schedule ? (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Schedule config={config} />
          <Occurrences type={type} zone={zoneOf(config)} />
        </SimpleGrid>
      ) : (
        <Panel title={t("configs.schedule")}><Empty title={t("configs.no_schedule")} text={t("configs.no_schedule_text")} /></Panel>
      )}
      <Revisions type={type} current={config.revision} />
    </Stack>
  );
}

function Head({ config, onEdit }: { config: TaskConfig; onEdit: () => void }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const [isRunning, setRunning] = useState(false);
  const path = `/task-configs/${part(config.type)}`;

  const flip = async (): Promise<void> => {
    const question = { title: t("configs.pause_title"), text: t("configs.pause_text"), action: t("configs.pause") };
    if (config.enabled && !(await confirm(question))) return;
    try {
      await post(`${path}:${config.enabled ? "pause" : "resume"}`);
      notifyDone(t(config.enabled ? "configs.is_paused" : "configs.is_resumed"));
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };
  const erase = async (): Promise<void> => {
    if (!(await confirm({ title: t("configs.delete_title"), text: t("configs.delete_text"), action: t("configs.delete") }))) return;
    try {
      await remove(path);
      notifyDone(t("configs.is_deleted"));
      go("/task-configs");
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };

  return (
    <PageHead
      title={<Group gap="sm"><Foreign text={config.name || config.type} />{!config.enabled && <Badge color="gray" tt="none">{t("configs.paused")}</Badge>}</Group>}
      note={config.name !== config.type && config.name && <Foreign text={config.type} />}
    >
      {can("operator") && (
        <>
          <Button size="xs" leftSection={<Play size={14} />} disabled={!config.enabled} onClick={() => setRunning(true)}>{t("configs.run_now")}</Button>
          <Button size="xs" variant="default" leftSection={config.enabled ? <Ban size={14} /> : <Play size={14} />} onClick={() => void flip()}>{t(config.enabled ? "configs.pause" : "configs.resume")}</Button>
        </>
      )}
      {can("admin") && (
        <>
          <Button size="xs" variant="default" leftSection={<Pencil size={14} />} onClick={onEdit}>{t("configs.edit")}</Button>
          <Button size="xs" variant="light" color="red" leftSection={<Trash2 size={14} />} onClick={() => void erase()}>{t("configs.delete")}</Button>
        </>
      )}
      {isRunning && <RunNow config={config} onClose={() => setRunning(false)} />}
    </PageHead>
  );
}

function Schedule({ config }: { config: TaskConfig }): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const preview = useQuery({
    queryKey: ["configs", "schedule", config.type, config.revision],
    queryFn: ({ signal }) => get<SchedulePreview>(`/task-configs/${part(config.type)}/schedule`, { count: 8 }, signal),
    refetchInterval: every,
  });
  return (
    <Panel title={t("configs.schedule")} aside={<span className="mono">{describeSchedule(config.schedule)}</span>}>
      <SchedulePause config={config} />
      <ProblemAlert error={preview.error} />
      {preview.data && <SchedulePreviewBox preview={preview.data} zone={zoneOf(config)} />}
    </Panel>
  );
}

const zoneOf = ({ schedule }: TaskConfig): string => (typeof schedule?.zone === "string" ? schedule.zone : "UTC");

/** What became of the tasks that were fired, by id, as far as they are among the newest of the type. */
function useOutcomes(type: string, fired: readonly Occurrence[]): ReadonlyMap<string, TaskStatus> {
  const { every } = useLive();
  const { data } = useQuery({
    queryKey: ["tasks", "of occurrences", type],
    queryFn: ({ signal }) => get<Page<Task>>("/tasks", { type, limit: MOST_TASKS }, signal),
    enabled: fired.some((one) => one.task_id !== null),
    refetchInterval: every,
  });
  return useMemo(() => new Map((data?.items ?? []).map((task) => [task.id, task.status])), [data]);
}

function Occurrences({ type, zone }: { type: string; zone: string }): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const found = useQuery({
    queryKey: ["configs", "occurrences", type],
    queryFn: ({ signal }) => get<Page<Occurrence>>(`/task-configs/${part(type)}/occurrences`, { limit: FIRES }, signal),
    refetchInterval: every,
  });
  const items = found.data?.items ?? [];
  const outcomes = useOutcomes(type, items);
  return (
    <Panel title={t("configs.occurrences")}>
      <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />
      <Known of={[found]}>
        {items.length === 0 ? (
          <Empty title={t("configs.no_occurrences")} />
        ) : (
          <>
            <Text size="xs" c="dimmed">{t("configs.on_clock", { zone })}</Text>
            <Table data-testid="occurrences">
              <Table.Tbody>
                {items.map((one) => (
                  <Table.Tr key={one.fire_at}>
                    <Table.Td>{one.since && <><Time at={one.since} zone={zone} /> – </>}<Time at={one.fire_at} zone={zone} /></Table.Td>
                    <Table.Td><Became of={one} outcome={outcomes.get(one.task_id ?? "")} /></Table.Td>
                    <Table.Td>{one.task_id ? <TextLink to={`/tasks/${one.task_id}`}><span className="mono">{one.task_id}</span></TextLink> : <Reason text={one.reason} />}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </>
        )}
      </Known>
    </Panel>
  );
}

/** A fire is no success: how its task fared is told where it is known. */
function Became({ of, outcome }: { of: Occurrence; outcome: TaskStatus | undefined }): ReactNode {
  const { t } = useTranslation();
  if (outcome) return <StatusBadge status={outcome} />;
  return <Badge variant="dot" color="gray.5" tt="none" miw="max-content">{t(of.status === "FIRED" ? "configs.FIRED" : "configs.SKIPPED")}</Badge>;
}

/** Why a target was skipped: a word of ours, and what else there is to say of it. */
function Reason({ text }: { text: string }): ReactNode {
  const { t, i18n } = useTranslation();
  const [code = "", ...more] = text.split(": ");
  const known = code as "overlap";
  const word = i18n.exists(`configs.reasons.${known}`) ? t(`configs.reasons.${known}`) : code;
  return <>{word === code ? <Foreign text={code} /> : word}{more.length > 0 && <>{": "}<ServerWords text={more.join(": ")} isAside /></>}</>;
}
