// Define a type, or change it. What the server would refuse is refused by the server, and shown at its field; what it
// would fire is shown while the schedule is typed.

import { Anchor, Button, Group, MultiSelect, NativeSelect, SegmentedControl, SimpleGrid, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError, get, part, post, put } from "../api";
import { parse, writeJson } from "../json";
import { Link } from "../router";
import { oneLine } from "../text";
import type { CalendarSummary, Page, SchedulePreview, TaskConfig } from "../types";
import { useUnsaved } from "../unsaved";
import { Command, PageHead, Panel } from "./bits";
import { CODE } from "./code";
import { ExecutorFields } from "./ExecutorFields";
import { NumberField } from "./NumberField";
import { notifyDone, ProblemAlert, ServerWords } from "./problem";
import { SchedulePreviewBox, untilNext } from "./SchedulePreview";

const EXECUTORS: Record<string, object> = {
  local: {},
  http: {},
  grpc: {},
};
const MODES = ["none", "cron", "every_seconds", "after_end_seconds", "at"] as const;
type Mode = (typeof MODES)[number];
const REPLACED = new Set(["dialect", "only", "exclude", "on_excluded"]); // by what the form says
const MOST_CALENDARS = 1000;

interface Draft {
  type: string;
  name: string;
  description: string;
  executor: string;
  executorKeys: string; // JSON
  payload: string; // JSON
  timeout: number | string;
  priority: number | string;
  maxConcurrent: number | string;
  rate: number | string;
  retries: number | string;
  strategy: string;
  delay: number | string;
  backoff: number | string;
  enabled: boolean;
  mode: Mode;
  when: string; // the expression, the seconds or the times
  zone: string;
  dialect: string;
  overlap: string;
  onMissed: string;
  only: string[]; // calendars
  exclude: string[];
  onExcluded: string;
}

function toDraft(config: TaskConfig | null): Draft {
  const { type: executor = "local", ...keys } = config?.executor ?? { type: "http", ...EXECUTORS.http };
  const schedule = config?.schedule ?? null;
  const mode = MODES.find((one) => one !== "none" && schedule?.[one] !== undefined && schedule[one] !== null) ?? "none";
  const when = mode === "none" ? "" : schedule?.[mode];
  return {
    type: config?.type ?? "",
    name: config?.name ?? "",
    description: config?.description ?? "",
    executor: String(executor),
    executorKeys: writeJson(keys, 2),
    payload: writeJson(config?.payload ?? {}, 2),
    timeout: config?.timeout_seconds ?? 300,
    priority: config?.priority ?? 0,
    maxConcurrent: config?.max_concurrent ?? "",
    rate: config?.rate_per_second ?? "",
    retries: config?.retry.max_retries ?? 3,
    strategy: config?.retry.strategy ?? "EXPONENTIAL",
    delay: config?.retry.delay_seconds ?? 10,
    backoff: config?.retry.backoff_rate ?? 2,
    enabled: config?.enabled ?? true,
    mode,
    when: Array.isArray(when) ? when.join("\n") : when === undefined ? "" : String(when),
    zone: String(schedule?.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC"),
    dialect: String(schedule?.dialect ?? "vixie"),
    overlap: String(schedule?.overlap ?? "skip"),
    onMissed: String(schedule?.on_missed ?? "run_once"),
    only: names(schedule?.only),
    exclude: names(schedule?.exclude),
    onExcluded: String(schedule?.on_excluded ?? "skip"),
  };
}

const names = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

/** The schedule that the draft spells; keys that the form does not show stay as they are. */
function toSchedule(draft: Draft, before: TaskConfig["schedule"]): Record<string, unknown> | null {
  if (draft.mode === "none") return null;
  const kept = Object.fromEntries(Object.entries(before ?? {}).filter(([key]) => !(MODES as readonly string[]).includes(key) && !REPLACED.has(key)));
  const times = draft.when.split(/\s+/).filter(Boolean);
  const value = { cron: draft.when.trim(), at: times, every_seconds: Number(draft.when), after_end_seconds: Number(draft.when) }[draft.mode];
  const schedule: Record<string, unknown> = { ...kept, [draft.mode]: value, zone: draft.zone || "UTC", overlap: draft.overlap, on_missed: draft.onMissed };
  if (draft.mode === "cron") schedule.dialect = draft.dialect;
  if (draft.only.length + draft.exclude.length > 0) return { ...schedule, only: draft.only, exclude: draft.exclude, on_excluded: draft.onExcluded };
  return schedule;
}

function toBody(draft: Draft, config: TaskConfig | null): object {
  const keys = parse(draft.executorKeys).value;
  return {
    name: draft.name,
    description: draft.description,
    executor: { ...(typeof keys === "object" ? keys : {}), type: draft.executor },
    payload: parse(draft.payload).value,
    timeout_seconds: Number(draft.timeout),
    priority: Number(draft.priority),
    max_concurrent: draft.maxConcurrent === "" ? null : Number(draft.maxConcurrent),
    rate_per_second: draft.rate === "" ? null : Number(draft.rate),
    retry: { ...(config?.retry ?? {}), max_retries: Number(draft.retries), strategy: draft.strategy, delay_seconds: Number(draft.delay), backoff_rate: Number(draft.backoff) },
    schedule: toSchedule(draft, config?.schedule ?? null),
    source: config?.source ?? "", // a type that is kept in files stays one of them
    enabled: draft.enabled,
    revision: config?.revision ?? 0, // what it replaces: a change by somebody else meanwhile is never lost
  };
}

/** What the server calls a field, where that is another name. */
const FIELDS: Partial<Record<keyof Draft, string>> = {
  executor: "executor.type",
  executorKeys: "executor",
  timeout: "timeout_seconds",
  maxConcurrent: "max_concurrent",
  rate: "rate_per_second",
  retries: "retry.max_retries",
  delay: "retry.delay_seconds",
  backoff: "retry.backoff_rate",
  when: "schedule",
  zone: "schedule.zone",
  overlap: "schedule.overlap",
  only: "schedule.only",
  exclude: "schedule.exclude",
  onExcluded: "schedule.on_excluded",
};

type Put = <K extends keyof Draft>(key: K, value: Draft[K]) => void;
type Faults = (field: string) => ReactNode;

export function ConfigForm({ config, onDone }: { config: TaskConfig | null; onDone: (stored: TaskConfig | null) => void }): ReactNode {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [given] = useState(() => toDraft(config));
  const [draft, setDraft] = useState(given);
  const { leave, release } = useUnsaved(JSON.stringify(draft) !== JSON.stringify(given));
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [changed, setChanged] = useState<ReadonlySet<string>>(new Set()); // since the server was asked
  const set: Put = (key, value) => {
    setDraft((before) => ({ ...before, [key]: value }));
    setChanged((before) => new Set(before).add(FIELDS[key] ?? key));
  };
  const isWellFormed = parse(draft.executorKeys).problem === null && parse(draft.payload).problem === null && draft.type.trim() !== "";
  const faults: Faults = (field) => {
    if (!(error instanceof ApiError) || changed.has(field) || (field.startsWith("executor.") && changed.has("executor"))) return undefined;
    const found = error.problem.errors.find((one) => one.field === field || one.field.startsWith(`${field}.`));
    return found && <ServerWords text={found.problem} />;
  };

  const store = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setChanged(new Set());
    try {
      const stored = await put<TaskConfig>(`/task-configs/${part(draft.type.trim())}`, toBody(draft, config));
      void queries.invalidateQueries({ queryKey: ["configs"] });
      notifyDone(t("configs.stored"));
      release();
      onDone(stored);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void store(event)}>
      <Stack>
        <PageHead title={config ? t("configs.edit_title", { type: config.type }) : t("configs.new")}>
          <Button variant="default" size="xs" onClick={() => leave(() => onDone(null))}>{t("common.back")}</Button>
          <Button size="xs" type="submit" loading={isBusy} disabled={!isWellFormed}>{t("configs.store")}</Button>
        </PageHead>
        <ProblemAlert error={error} />
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Basics draft={draft} set={set} faults={faults} isNew={config === null} />
          <WhenFields draft={draft} set={set} faults={faults} config={config} />
          <What draft={draft} set={set} faults={faults} />
          <Limits draft={draft} set={set} faults={faults} />
        </SimpleGrid>
        <Button type="submit" loading={isBusy} disabled={!isWellFormed} hiddenFrom="sm">{t("configs.store")}</Button>
      </Stack>
    </form>
  );
}

interface Part {
  draft: Draft;
  set: Put;
  faults: Faults;
}

function Basics({ draft, set, faults, isNew }: Part & { isNew: boolean }): ReactNode {
  const { t } = useTranslation();
  return (
    <Panel title={t("configs.basics")}>
      <Stack gap="sm">
        <TextInput label={t("configs.type")} description={t("configs.type_note")} required disabled={!isNew} value={draft.type} onChange={(event) => set("type", event.currentTarget.value)} error={faults("type")} placeholder="send_email" maxLength={200} />
        <TextInput label={t("configs.name")} value={draft.name} onChange={(event) => set("name", event.currentTarget.value)} error={faults("name")} />
        <Textarea label={t("configs.description")} autosize minRows={2} value={draft.description} onChange={(event) => set("description", event.currentTarget.value)} error={faults("description")} />
        <Switch label={t("configs.enabled")} checked={draft.enabled} onChange={(event) => set("enabled", event.currentTarget.checked)} />
      </Stack>
    </Panel>
  );
}

function What({ draft, set, faults }: Part): ReactNode {
  const { t } = useTranslation();
  return (
    <Panel title={t("configs.what")}>
      <Stack gap="sm">
        <NativeSelect
          label={t("configs.executor")}
          description={t("configs.executor_note")}
          data={[...new Set([...Object.keys(EXECUTORS), draft.executor])]}
          value={draft.executor}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            set("executor", chosen);
            set("executorKeys", writeJson(EXECUTORS[chosen] ?? {}, 2));
          }}
          error={faults("executor.type")}
        />
        <ExecutorFields key={draft.executor} kind={draft.executor} text={draft.executorKeys} onChange={(text) => set("executorKeys", text)} faults={faults} />
        <Textarea label={t("configs.payload")} description={t("configs.payload_note")} autosize minRows={3} styles={CODE} value={draft.payload} onChange={(event) => set("payload", event.currentTarget.value)} error={parse(draft.payload).problem ?? faults("payload")} />
      </Stack>
    </Panel>
  );
}

function Limits({ draft, set, faults }: Part): ReactNode {
  const { t } = useTranslation();
  return (
    <Panel title={t("configs.limits")}>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <NumberField label={t("configs.timeout_seconds")} min={0.1} required withAsterisk={false} value={draft.timeout} onChange={(value) => set("timeout", value)} error={faults("timeout_seconds")} />
        <NumberField label={`${t("tasks.priority")} (0–9)`} min={0} max={9} required withAsterisk={false} value={draft.priority} onChange={(value) => set("priority", value)} error={faults("priority")} />
        <NumberField label={t("configs.max_concurrent")} placeholder={t("configs.no_limit")} min={1} value={draft.maxConcurrent} onChange={(value) => set("maxConcurrent", value)} error={faults("max_concurrent")} />
        <NumberField label={t("configs.rate")} placeholder={t("configs.no_limit")} min={0} value={draft.rate} onChange={(value) => set("rate", value)} error={faults("rate_per_second")} />
        <NumberField label={t("configs.retries")} min={0} max={1000} required withAsterisk={false} value={draft.retries} onChange={(value) => set("retries", value)} error={faults("retry.max_retries")} />
        <NativeSelect label={t("configs.strategy")} data={(["EXPONENTIAL", "FIXED"] as const).map((value) => ({ value, label: t(`configs.${value}`) }))} value={draft.strategy} onChange={(event) => set("strategy", event.currentTarget.value)} />
        <NumberField label={t("configs.delay_seconds")} min={0} required withAsterisk={false} value={draft.delay} onChange={(value) => set("delay", value)} error={faults("retry.delay_seconds")} />
        {draft.strategy === "EXPONENTIAL" && <NumberField label={t("configs.backoff")} min={1} max={100} step={0.5} required withAsterisk={false} value={draft.backoff} onChange={(value) => set("backoff", value)} error={faults("retry.backoff_rate")} />}
      </SimpleGrid>
    </Panel>
  );
}

function WhenFields({ draft, set, faults, config }: Part & { config: TaskConfig | null }): ReactNode {
  const { t } = useTranslation();
  return (
    <Panel title={t("configs.schedule")}>
      <Stack gap="sm">
        <SegmentedControl fullWidth size="xs" data={MODES.map((value) => ({ value, label: t(`configs.mode_${value}`) }))} value={draft.mode} onChange={(value) => setDraftMode(value as Mode, set)} aria-label={t("configs.schedule")} />
        {draft.mode === "none" ? (
          <Text size="sm" c="dimmed">{t("configs.no_schedule_yet")}</Text>
        ) : (
          <>
            {draft.mode === "at" ? (
              <Textarea label={t("configs.times")} description={t("configs.times_note")} autosize minRows={2} styles={CODE} value={draft.when} onChange={(event) => set("when", event.currentTarget.value)} error={faults("schedule")} />
            ) : (
              <TextInput label={t(draft.mode === "cron" ? "configs.cron" : "configs.seconds")} styles={CODE} value={draft.when} onChange={(event) => set("when", event.currentTarget.value)} error={faults("schedule")} placeholder={draft.mode === "cron" ? "30 9 * * 1-5" : "90"} />
            )}
            <Group grow align="flex-start">
              <TextInput label={t("configs.zone")} value={draft.zone} onChange={(event) => set("zone", event.currentTarget.value)} error={faults("schedule.zone")} />
              {draft.mode === "cron" && <NativeSelect label={t("configs.dialect")} data={["vixie", "quartz"]} value={draft.dialect} onChange={(event) => set("dialect", event.currentTarget.value)} />}
            </Group>
            <Group grow align="flex-start">
              <NativeSelect label={t("configs.overlap")} data={["skip", "allow", "queue_one", "queue_all", "cancel_running"].map((value) => ({ value, label: t(`configs.overlap_${value as "skip"}`) }))} value={draft.overlap} onChange={(event) => set("overlap", event.currentTarget.value)} error={faults("schedule.overlap")} />
              <NativeSelect label={t("configs.on_missed")} data={["run_once", "run_all", "skip"].map((value) => ({ value, label: t(`configs.missed_${value as "skip"}`) }))} value={draft.onMissed} onChange={(event) => set("onMissed", event.currentTarget.value)} />
            </Group>
            <Calendars draft={draft} set={set} faults={faults} />
            <Preview draft={draft} config={config} />
          </>
        )}
      </Stack>
    </Panel>
  );
}

/** The days that it keeps to, and those that it keeps out of. */
function Calendars({ draft, set, faults }: Part): ReactNode {
  const { t } = useTranslation();
  const found = useQuery({ queryKey: ["calendars"], queryFn: ({ signal }) => get<Page<CalendarSummary>>("/calendars", { limit: MOST_CALENDARS }, signal) });
  const known = new Set([...(found.data?.items ?? []).map((one) => one.name), ...draft.only, ...draft.exclude]);
  if (known.size === 0) {
    if (!found.data) return <ProblemAlert error={found.error} />;
    return (
      <div>
        <Text size="xs" c="dimmed">{t("configs.no_calendars")}</Text>
        <Command text="rota calendar put holidays --country CN --holidays" />
        <CalendarsLink />
      </div>
    );
  }
  const data = [...known].map((value) => ({ value, label: oneLine(value, 60) }));
  return (
    <>
      <Group grow align="flex-start">
        <MultiSelect label={t("configs.only")} data={data} value={draft.only} onChange={(only) => set("only", only)} error={faults("schedule.only")} searchable />
        <MultiSelect label={t("configs.exclude")} data={data} value={draft.exclude} onChange={(exclude) => set("exclude", exclude)} error={faults("schedule.exclude")} searchable />
      </Group>
      {draft.only.length + draft.exclude.length > 0 && (
        <NativeSelect label={t("configs.on_excluded")} data={(["skip", "run_before", "run_after"] as const).map((value) => ({ value, label: t(`configs.excluded_${value}`) }))} value={draft.onExcluded} onChange={(event) => set("onExcluded", event.currentTarget.value)} error={faults("schedule.on_excluded")} />
      )}
      <CalendarsLink />
    </>
  );
}

/** Beside the form, of which nothing is lost. */
function CalendarsLink(): ReactNode {
  const { t } = useTranslation();
  return <Anchor component={Link} to="/calendars" target="_blank" size="xs">{t("configs.edit_calendars")}</Anchor>;
}

function setDraftMode(mode: Mode, set: Put): void {
  set("mode", mode);
  set("when", { none: "", cron: "*/5 * * * *", every_seconds: "60", after_end_seconds: "60", at: new Date(Date.now() + 3_600_000).toISOString() }[mode]);
}

/** Whether its times depend on the type: by an H, or by jitter. THU has an H, too: then it is asked once too often. */
const isSpread = (schedule: TaskConfig["schedule"]): boolean => /h/i.test(String(schedule?.cron ?? "")) || Boolean(schedule?.jitter_seconds);

function Preview({ draft, config }: { draft: Draft; config: TaskConfig | null }): ReactNode {
  const schedule = toSchedule(draft, config?.schedule ?? null);
  const [settled] = useDebouncedValue(JSON.stringify({ schedule, type: isSpread(schedule) ? draft.type.trim() : "", count: 5 }), 300);
  const asked = JSON.parse(settled) as { schedule: TaskConfig["schedule"] };
  const preview = useQuery({
    queryKey: ["preview", settled],
    queryFn: () => post<SchedulePreview>("/schedules:preview", asked),
    placeholderData: undefined,
    retry: false,
    refetchInterval: ({ state }) => state.status === "success" && untilNext(state.data),
  });
  if (preview.error) return <ProblemAlert error={preview.error} />;
  return preview.data ? <SchedulePreviewBox preview={preview.data} zone={String(asked.schedule?.zone ?? "UTC")} /> : null;
}
