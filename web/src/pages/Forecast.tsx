import { Alert, Button, Group, MultiSelect, SegmentedControl, SimpleGrid, Stack, Table, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { Empty, Field, Foreign, Key, Loading, PageHead, Panel, TextLink } from "../components/bits";
import { ProblemAlert, ServerWords } from "../components/problem";
import { absolute, between, count, duration, rate, taken, Time, useTimeKind } from "../format";
import { language } from "../i18n";
import { useLive } from "../live";
import { useQueryState } from "../router";
import { oneLine } from "../text";
import type { Forecast as Found, ForecastBucket, Page, TaskConfig, Worker } from "../types";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const SPANS = { "1h": { length: HOUR, buckets: 60 }, "24h": { length: DAY, buckets: 96 }, "7d": { length: 7 * DAY, buckets: 168 }, "30d": { length: 30 * DAY, buckets: 720 } } as const;
type SpanName = keyof typeof SPANS;
const MOST_ROWS = 200;
const MOST_NAMES = 50;
const MOST_LEFT_OUT = 1000; // of more the server names no others

interface Span {
  name: SpanName;
  begin: number;
  end: number;
  buckets: number;
  isChosen: boolean; // a piece of time that was clicked at, which does not move on with the clock
}

function readSpan(query: URLSearchParams, now: number): Span {
  const name = Object.hasOwn(SPANS, query.get("span") ?? "") ? (query.get("span") as SpanName) : "24h";
  const { length, buckets } = SPANS[name];
  const chosen = Date.parse(query.get("at") ?? "");
  const size = length / buckets;
  const begin = Number.isNaN(chosen) ? Math.floor(now / size) * size : chosen;
  return { name, begin, end: begin + length, buckets, isChosen: !Number.isNaN(chosen) };
}

/** How many run at once, on average: of less than one no fraction says more. */
/** Null: of a part of the work, less than one says nothing. */
function atOnce(busy: number, isKnown: boolean): string | null {
  if (busy >= 1 || busy === 0) return atLeast(rate(busy), isKnown);
  return isKnown ? `< ${count(1)}` : null;
}

export default function Forecast(): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const [query, change] = useQueryState();
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const span = readSpan(query, minute);
  const types = query.getAll("type");
  const forecast = useQuery({
    queryKey: ["forecast", span.name, span.begin, types],
    queryFn: ({ signal }) => get<Found>("/schedules:forecast", { begin: new Date(span.begin).toISOString(), end: new Date(span.end).toISOString(), buckets: span.buckets, type: types }, signal),
    refetchInterval: every === false ? false : 60_000,
  });
  const workers = useQuery({ queryKey: ["workers", "room"], queryFn: ({ signal }) => get<Page<Worker>>("/workers", { limit: 1000 }, signal), refetchInterval: every });
  const room = (workers.data?.items ?? []).filter((worker) => worker.alive && !worker.draining).reduce((sum, worker) => sum + worker.capacity, 0);
  const found = forecast.data;
  return (
    <Stack>
      <PageHead title={t("nav.forecast")} note={t("forecast.about")}>
        {span.isChosen && <Button variant="default" size="xs" leftSection={<ArrowLeft size={14} />} onClick={() => change({ at: null, span: "7d" })}>{t("forecast.from_now")}</Button>}
        <SegmentedControl size="xs" aria-label={t("forecast.span")} data={Object.keys(SPANS).map((value) => ({ value, label: t(`forecast.span_${value as SpanName}`) }))} value={span.name} onChange={(value) => change({ span: value, at: null })} />
      </PageHead>
      <TypeFilter chosen={types} onChange={(type) => change({ type })} />
      <ProblemAlert error={forecast.error} onRetry={() => void forecast.refetch()} />
      {forecast.isPending ? <Loading /> : found && <Shown found={found} span={span} room={room} choose={change} />}
    </Stack>
  );
}

type Choose = (changes: Record<string, string | string[] | null>) => void;

function TypeFilter({ chosen, onChange }: { chosen: string[]; onChange: (types: string[]) => void }): ReactNode {
  const { t } = useTranslation();
  const configs = useQuery({
    queryKey: ["configs", "types"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: 1000 }, signal),
    staleTime: 30_000,
  });
  const known = new Set([...(configs.data?.items ?? []).filter((config) => config.schedule).map((config) => config.type), ...chosen]);
  return (
    <MultiSelect
      label={t("tasks.type")}
      placeholder={chosen.length > 0 ? undefined : t("tasks.any")}
      data={[...known].map((value) => ({ value, label: oneLine(value, 60) }))}
      value={chosen}
      onChange={onChange}
      searchable
      clearable
      maw={480}
      clearButtonProps={{ "aria-label": t("tasks.clear") }}
    />
  );
}

function Shown({ found, span, room, choose }: { found: Found; span: Span; room: number; choose: Choose }): ReactNode {
  const { t } = useTranslation();
  const busiest = found.buckets.reduce<ForecastBucket | null>((most, bucket) => (bucket.busy > (most?.busy ?? 0) ? bucket : most), null);
  const work = found.buckets.reduce((sum, bucket) => sum + bucket.work_seconds, 0);
  const least = (text: string): string => atLeast(text, found.complete);
  const isWorkKnown = found.complete && found.buckets.every((bucket) => bucket.unknown_runs === 0);
  const most = busiest === null ? null : atOnce(busiest.busy, isWorkKnown);
  const isTight = room > 0 && busiest !== null && busiest.busy > room;
  return (
    <>
      {!found.complete && <Alert color="yellow">{t("forecast.incomplete")} {found.known_until !== null && <>{t("forecast.known_until")} <Time at={found.known_until} /></>}</Alert>}
      {isTight && <Alert color="orange" title={t("forecast.tight")}>{t("forecast.tight_text", { busy: rate(busiest.busy), room: count(room), at: absolute(busiest.begin) })}</Alert>}
      <Panel>
        <SimpleGrid cols={{ base: 2, sm: 4 }}>
          <Field label={t("forecast.runs")}>{least(count(found.runs))}</Field>
          <Field label={t("forecast.work")}>{work === 0 ? "–" : atLeast(duration(work), isWorkKnown)}</Field>
          <Field label={t("forecast.busiest")}>{busiest === null || most === null ? "–" : <>{most} · <Time at={busiest.begin} /></>}</Field>
          <Field label={t("forecast.room")}>{count(room)}</Field>
        </SimpleGrid>
      </Panel>
      {found.runs === 0 && found.unforeseen.length === 0 && found.complete ? (
        <Panel><Empty title={t("forecast.empty")} text={t("forecast.empty_text")} command="rota schedule preview '*/5 * * * *'"><TextLink to="/task-configs">{t("nav.configs")}</TextLink></Empty></Panel>
      ) : (
        <>
          <Panel title={t("forecast.load")} aside={<Legend found={found} room={room} />}>
            {span.name === "7d" || span.name === "30d" ? <Calendar found={found} room={room} choose={choose} /> : <Bars found={found} room={room} />}
          </Panel>
          <Types found={found} choose={choose} />
        </>
      )}
    </>
  );
}

const atLeast = (text: string, isComplete: boolean): string => (isComplete ? text : `≥ ${text}`);
const hatch = (bucket: ForecastBucket): string => (bucket.complete ? "" : "hatched");

type Fit = "fits" | "beyond" | "unknown";
const FITS: Record<Fit, string> = { fits: "indigo.5", beyond: "orange.6", unknown: "gray.6" };

/** Whether the workers have room for what begins then; unknown as long as some of it never ran to its end. */
function fitOf(bucket: ForecastBucket, room: number): Fit {
  if (room > 0 && bucket.busy > room) return "beyond";
  return bucket.unknown_runs > 0 ? "unknown" : "fits";
}

const tint = (bucket: ForecastBucket, room: number): string => `var(--mantine-color-${FITS[fitOf(bucket, room)].replace(".", "-")})`;

function Legend({ found, room }: { found: Found; room: number }): ReactNode {
  const { t } = useTranslation();
  const seen = new Set(found.buckets.filter((bucket) => bucket.runs > 0).map((bucket) => fitOf(bucket, room)));
  return (
    <Group gap="sm">
      {(Object.keys(FITS) as Fit[]).filter((fit) => seen.has(fit)).map((fit) => (
        <Key key={fit} color={FITS[fit]}>{t(`forecast.${fit}`)}</Key>
      ))}
      {found.buckets.some((bucket) => !bucket.complete) && <Text size="xs"><span className="hatched hatched-key" /> {t("forecast.part")}</Text>}
    </Group>
  );
}

function useSay(): (bucket: ForecastBucket) => string {
  const { t } = useTranslation();
  const kind = useTimeKind();
  return (bucket) => {
    const at = absolute(bucket.begin, kind === "utc" ? "UTC" : undefined);
    const least = (text: string): string => atLeast(text, bucket.complete);
    const runs = least(count(bucket.runs));
    if (bucket.runs === 0 && !bucket.complete) return `${at} · ${t("forecast.not_known")}`;
    if (bucket.work_seconds === 0) return `${at} · ${t("forecast.bucket_runs", { runs })}`; // how long they take is not known
    const isKnown = bucket.complete && bucket.unknown_runs === 0;
    return `${at} · ${t("forecast.bucket", { runs, work: atLeast(duration(bucket.work_seconds), isKnown), busy: atOnce(bucket.busy, isKnown) ?? "–" })}`;
  };
}

/** Runs of each piece of the time, as a timeline. */
function Bars({ found, room }: { found: Found; room: number }): ReactNode {
  const { t } = useTranslation();
  const say = useSay();
  const most = Math.max(1, ...found.buckets.map((bucket) => bucket.runs));
  const marks = [0, 0.25, 0.5, 0.75].map((place) => found.buckets[Math.floor(place * found.buckets.length)]).filter((bucket) => bucket !== undefined);
  return (
    <>
      <Text size="xs" c="dimmed">{t("forecast.most", { number: count(most) })}</Text>
      <div className="bars" role="img" aria-label={t("forecast.load")} data-testid="forecast">
        {found.buckets.map((bucket) => (
          <Tooltip key={bucket.begin} label={say(bucket)}>
            <div className={`bar-place ${hatch(bucket)}`}><div className="bar" style={{ height: bucket.runs === 0 ? 0 : `max(3px, ${(bucket.runs / most) * 100}%)`, background: tint(bucket, room) }} /></div>
          </Tooltip>
        ))}
      </div>
      <Group grow gap={0}>
        {marks.map((bucket) => <Text key={bucket.begin} size="xs" c="dimmed" component="span"><Clock at={bucket.begin} /></Text>)}
      </Group>
    </>
  );
}

function useZone(): string | undefined {
  return useTimeKind() === "utc" ? "UTC" : undefined;
}

function Clock({ at }: { at: string }): ReactNode {
  const timeZone = useZone();
  return new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone }).format(new Date(at));
}

/** Hours by days; a click looks closer at one. */
function Calendar({ found, room, choose }: { found: Found; room: number; choose: Choose }): ReactNode {
  const { t } = useTranslation();
  const say = useSay();
  const zone = useZone();
  const days = useMemo(() => byDay(found.buckets, zone), [found, zone]);
  const most = Math.max(1, ...found.buckets.map((bucket) => bucket.runs));
  return (
    <div className="calendar" data-testid="forecast">
      <span />
      {Array.from({ length: 24 }, (_, hour) => <span key={hour} className="calendar-hour">{hour % 3 === 0 ? hour : ""}</span>)}
      {days.map(({ day, hours }) => [
        <span key={day} className="calendar-day">{day}</span>,
        ...hours.map((bucket, hour) =>
          bucket === null ? (
            <span key={`${day} ${hour}`} />
          ) : (
            <button key={`${day} ${hour}`} type="button" className={`calendar-cell ${hatch(bucket)}`} title={say(bucket)} aria-label={say(bucket)} onClick={() => choose({ span: "1h", at: bucket.begin })}>
              <span className="calendar-fill" style={{ opacity: bucket.runs === 0 ? 0 : 0.2 + 0.8 * (bucket.runs / most), background: tint(bucket, room) }} />
            </button>
          ),
        ),
      ])}
      <Text size="xs" c="dimmed" className="calendar-note">{t("forecast.look_closer")}</Text>
    </div>
  );
}

interface Day {
  day: string;
  hours: (ForecastBucket | null)[];
}

/** The hours of each day as the clock on the wall shows them. */
function byDay(buckets: readonly ForecastBucket[], timeZone: string | undefined): Day[] {
  const dayOf = new Intl.DateTimeFormat(language(), { weekday: "short", month: "short", day: "numeric", timeZone });
  const hourOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", hourCycle: "h23", timeZone });
  const days = new Map<string, Day>();
  for (const bucket of buckets) {
    const at = new Date(bucket.begin);
    const day = dayOf.format(at);
    const row = days.get(day) ?? { day, hours: Array.from({ length: 24 }, () => null) };
    const hour = Number(hourOf.format(at));
    const twice = row.hours[hour]; // the hour that comes again when the clocks go back
    row.hours[hour] = twice ? { ...twice, runs: twice.runs + bucket.runs, work_seconds: twice.work_seconds + bucket.work_seconds, busy: Math.max(twice.busy, bucket.busy), complete: twice.complete && bucket.complete, unknown_runs: twice.unknown_runs + bucket.unknown_runs } : bucket;
    days.set(day, row);
  }
  return [...days.values()];
}

function Types({ found, choose }: { found: Found; choose: Choose }): ReactNode {
  const { t } = useTranslation();
  const rows = [...found.types].sort((one, other) => between(other.first ?? found.end, one.first ?? found.end)).slice(0, MOST_ROWS);
  return (
    <Panel title={t("forecast.types")}>
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table data-testid="forecast-types" className="cards">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("configs.type")}</Table.Th>
                <Table.Th ta="right">{t("forecast.runs")}</Table.Th>
                <Table.Th>{t("forecast.first")}</Table.Th>
                <Table.Th>{t("forecast.last")}</Table.Th>
                <Table.Th ta="right">{t("forecast.takes")}</Table.Th>
                <Table.Th />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((one) => (
                <Table.Tr key={one.type}>
                  <Table.Td miw={140}><TextLink to={`/task-configs/${part(one.type)}`}><Foreign text={one.type} most={60} /></TextLink></Table.Td>
                  <Table.Td ta="right" className="number nowrap" data-label={t("forecast.runs")}>{atLeast(count(one.runs), one.complete)}</Table.Td>
                  <Table.Td data-label={t("forecast.first")}><Time at={one.first} /></Table.Td>
                  <Table.Td data-label={t("forecast.last")}><Time at={one.last} /></Table.Td>
                  <Table.Td ta="right" className="number nowrap" data-label={t("forecast.takes")}>{one.run_seconds === null ? "–" : taken(one.run_seconds)}</Table.Td>
                  <Table.Td ta="right"><Button size="compact-xs" variant="subtle" onClick={() => choose({ type: [one.type] })}>{t("forecast.only")}</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {found.types.length > rows.length && <Text size="sm" c="dimmed">{t("forecast.more", { number: count(found.types.length - rows.length) })}</Text>}
      {found.left_out.length > 0 && (
        <Text size="sm" c="dimmed" mt="sm" component="div">
          {t("forecast.left_out")} {found.left_out.slice(0, MOST_NAMES).map((type) => <span key={type}><TextLink to={`/task-configs/${part(type)}`}><Foreign text={type} most={60} /></TextLink> </span>)}
          {found.left_out.length > MOST_NAMES && t("forecast.more", { number: atLeast(count(found.left_out.length - MOST_NAMES), found.left_out.length < MOST_LEFT_OUT) })}
        </Text>
      )}
      {found.unforeseen.length > 0 && (
        <Text size="sm" c="dimmed" mt="sm" component="div">
          {t("forecast.unforeseen")} {found.unforeseen.slice(0, MOST_NAMES).map((type) => <span key={type}><TextLink to={`/task-configs/${part(type)}`}><Foreign text={type} most={60} /></TextLink> {found.reasons[type] !== undefined && <>(<ServerWords text={found.reasons[type]} isAside />) </>}</span>)}
        </Text>
      )}
    </Panel>
  );
}
