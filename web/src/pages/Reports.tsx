import { Box, Button, Group, NativeSelect, Paper, SegmentedControl, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { Download } from "lucide-react";
import { lazy, type ReactNode, Suspense, useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { getText, part } from "../api";
import type { Bars } from "../components/BarChart";
import { Empty, Foreign, ink, Loading, PageHead, Panel, TextLink } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { count, percent, taken as told, Time } from "../format";
import { asked, ended, failures, gather, LOCAL, type Range, RANGES, title, useReport, type Wish } from "../reports";
import { useQueryState } from "../router";
import { save } from "../text";
import type { Durations, Report, ReportFigures, ReportItem } from "../types";

const BarChart = lazy(() => import("../components/BarChart"));

function readWish(query: URLSearchParams): Wish {
  const given = query.get("range") ?? "";
  const range = Object.hasOwn(RANGES, given) ? (given as Range) : "7d";
  // Only days of UTC are kept for longer than some weeks.
  return { range, zone: range === "365d" ? "UTC" : (query.get("zone") ?? LOCAL), type: query.get("type") ?? "" };
}

const taken = (seconds: number | null): string => (seconds === null ? "–" : told(seconds));
const share = (rate: number | null): string => (rate === null ? "–" : percent(rate));

export default function Reports(): ReactNode {
  const { t } = useTranslation();
  const [query] = useQueryState();
  const wish = readWish(query);
  const report = useReport(wish);
  const found = report.data;
  return (
    <Stack>
      <PageHead
        title={t("nav.reports")}
        note={
          found?.complete_until && (
            <>
              {t("reports.complete_until")} <Time at={found.complete_until} />
            </>
          )
        }
      >
        <Controls wish={wish} />
      </PageHead>
      <ProblemAlert error={report.error} onRetry={() => void report.refetch()} />
      {report.isPending && <Loading />}
      {found && found.types.length === 0 && (
        <Paper withBorder>
          <Empty title={t("reports.empty")} text={t("reports.empty_text")} command="rota task submit sample_hello --wait" />
        </Paper>
      )}
      {found && found.types.length > 0 && <Contents report={found} wish={wish} />}
    </Stack>
  );
}

function Controls({ wish }: { wish: Wish }): ReactNode {
  const { t } = useTranslation();
  const [, change] = useQueryState();
  const [error, setError] = useState<unknown>(null);
  const zones = [...new Set([LOCAL, "UTC", wish.zone])];
  const download = async (): Promise<void> => {
    setError(null);
    try {
      save(`rota-report-${wish.range}.csv`, await getText("/reports", { ...asked(wish), format: "csv" }), "text/csv");
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <>
      <SegmentedControl
        aria-label={t("reports.range")}
        value={wish.range}
        onChange={(range) => change({ range })}
        data={Object.keys(RANGES).map((range) => ({ value: range, label: t(`reports.ranges.${range as Range}`) }))}
      />
      <NativeSelect
        aria-label={t("reports.zone")}
        title={wish.range === "365d" ? t("reports.utc_only") : undefined}
        disabled={wish.range === "365d"}
        value={wish.zone}
        onChange={(event) => change({ zone: event.currentTarget.value })}
        data={zones}
      />
      <Button variant="default" leftSection={<Download size={16} />} onClick={() => void download()}>
        CSV
      </Button>
      <ProblemAlert error={error} />
    </>
  );
}

function Contents({ report, wish }: { report: Report; wish: Wish }): ReactNode {
  const { t, i18n } = useTranslation();
  const buckets = useMemo(() => gather(report), [report]);
  const { by, zone } = report;
  // Anew in another language, which is read inside.
  const name = useCallback((seconds: number) => title(seconds * 1000, by, zone), [by, zone, i18n.language]);
  return (
    <>
      <Totals report={report} />
      <Panel title={t("reports.chart")} aside={wish.type ? <Chosen type={wish.type} /> : undefined}>
        <Suspense fallback={<Loading />}>
          <BarChart bars={buckets} name={name} />
        </Suspense>
      </Panel>
      <Types report={report} starts={buckets.starts} />
      {!wish.type && (
        <SimpleGrid cols={{ base: 1, md: 2 }}>
          <Ranking heading={t("reports.slowest")} names={report.slowest} report={report} value={(one) => taken(one.run.p95_seconds)} unit="p95" />
          <Ranking heading={t("reports.most_failing")} names={report.most_failing} report={report} value={(one) => count(failures(one))} unit={t("reports.failed")} />
        </SimpleGrid>
      )}
      <Pieces report={report} bars={buckets} name={name} type={wish.type} />
    </>
  );
}

function Chosen({ type }: { type: string }): ReactNode {
  const { t } = useTranslation();
  const [, change] = useQueryState();
  return (
    <Button size="compact-sm" variant="light" onClick={() => change({ type: null })}>
      {t("reports.all_types", { type })}
    </Button>
  );
}

function Totals({ report }: { report: Report }): ReactNode {
  const { t } = useTranslation();
  const { totals } = report;
  const figures: [string, string, ReactNode][] = [
    [t("reports.ended"), count(ended(totals)), t("reports.submitted_note", { number: count(totals.submitted) })],
    [t("reports.success_rate"), share(totals.success_rate), t("reports.cancelled_note", { number: count(totals.cancelled) })],
    [t("reports.failed"), count(failures(totals)), t("reports.quarantined_note", { number: count(totals.quarantined) })],
    [t("reports.retries"), count(totals.retries), t("reports.attempts_note", { number: count(totals.attempts) })],
    [t("reports.run"), taken(totals.run.p50_seconds), <Tail key="run" of={totals.run} />],
    [t("reports.wait"), taken(totals.wait.p50_seconds), <Tail key="wait" of={totals.wait} />],
  ];
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 6 }} spacing="sm" data-testid="report-totals">
      {figures.map(([label, value, note]) => (
        <Paper key={label} withBorder p="sm">
          <Text size="xs" c="dimmed">
            {label}
          </Text>
          <Text size="lg" fw={700} className="number">
            {value}
          </Text>
          <Text size="xs" c="dimmed" component="div">
            {note}
          </Text>
        </Paper>
      ))}
    </SimpleGrid>
  );
}

function Tail({ of }: { of: Durations }): ReactNode {
  return (
    <Group gap="0 8px">
      <span className="nowrap">p95 {taken(of.p95_seconds)}</span>
      <span className="nowrap">p99 {taken(of.p99_seconds)}</span>
    </Group>
  );
}

function Numbers({ one }: { one: ReportFigures }): ReactNode {
  const { t } = useTranslation();
  return (
    <>
      <Table.Td ta="right" data-label={t("reports.ended")}>{count(ended(one))}</Table.Td>
      <Table.Td ta="right" data-label={t("reports.success_rate")} style={{ color: one.success_rate !== null && one.success_rate < 0.95 ? ink("FAILED") : undefined }}>
        {share(one.success_rate)}
      </Table.Td>
      <Table.Td ta="right" data-label={t("reports.failed")}>{count(failures(one))}</Table.Td>
      <Table.Td ta="right" data-label={t("reports.retries")}>{count(one.retries)}</Table.Td>
      <Table.Td ta="right" className="nowrap" data-label="p50">{taken(one.run.p50_seconds)}</Table.Td>
      <Table.Td ta="right" className="nowrap" data-label="p95">{taken(one.run.p95_seconds)}</Table.Td>
      <Table.Td ta="right" className="nowrap" data-label="p99">{taken(one.run.p99_seconds)}</Table.Td>
    </>
  );
}

function NumberHeads(): ReactNode {
  const { t } = useTranslation();
  return [t("reports.ended"), t("reports.success_rate"), t("reports.failed"), t("reports.retries"), "p50", "p95", "p99"].map((head) => (
    <Table.Th key={head} ta="right">
      {head}
    </Table.Th>
  ));
}

function Types({ report, starts }: { report: Report; starts: number[] }): ReactNode {
  const { t } = useTranslation();
  const [, change] = useQueryState();
  const rows = [...report.types].sort((a, b) => ended(b) - ended(a));
  const trends = useMemo(() => {
    const found = new Map<string, Map<number, number>>();
    for (const item of report.items) {
      const trend = found.get(item.type) ?? new Map<number, number>();
      trend.set(new Date(item.start).getTime() / 1000, ended(item));
      found.set(item.type, trend);
    }
    return found;
  }, [report]);
  return (
    <Panel title={t("reports.by_type")}>
      <Table.ScrollContainer minWidth={760}>
        <Table data-testid="report-types" className="cards">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("reports.type")}</Table.Th>
              <NumberHeads />
              <Table.Th>{t("reports.trend")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((one) => (
              <Table.Tr key={one.type}>
                <Table.Td miw={130}>
                  <TextLink to={`/tasks?type=${part(one.type)}`}>
                    <Foreign text={one.type} most={60} />
                  </TextLink>
                </Table.Td>
                <Numbers one={one} />
                <Table.Td data-label={t("reports.trend")}>
                  <Button size="compact-xs" variant="subtle" onClick={() => change({ type: one.type })} aria-label={t("reports.only", { type: one.type })}>
                    <Spark values={starts.map((start) => trends.get(one.type)?.get(start) ?? 0)} />
                  </Button>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Panel>
  );
}

/** Bars, as small as a word. */
function Spark({ values }: { values: number[] }): ReactNode {
  const most = Math.max(1, ...values);
  const width = 120 / Math.max(values.length, 1);
  return (
    <svg width={120} height={22} aria-hidden="true">
      {values.map((value, place) => (
        <rect key={place} x={place * width} width={Math.max(width - 1, 0.5)} y={22 - (20 * value) / most} height={(20 * value) / most} fill="var(--mantine-primary-color-filled)" />
      ))}
    </svg>
  );
}

function Ranking({ heading, names, report, value, unit }: { heading: string; names: string[]; report: Report; value: (one: ReportFigures) => string; unit: string }): ReactNode {
  const { t } = useTranslation();
  const [, change] = useQueryState();
  const known = new Map(report.types.map((one) => [one.type, one]));
  const shown = names.slice(0, 5).flatMap((name) => known.get(name) ?? []);
  return (
    <Panel title={heading} aside={<Text size="xs" c="dimmed">{unit}</Text>}>
      {shown.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t("reports.none")}
        </Text>
      ) : (
        <Stack gap={4}>
          {shown.map((one) => (
            <Group key={one.type} justify="space-between" wrap="nowrap">
              <Button size="compact-sm" variant="subtle" onClick={() => change({ type: one.type })}>
                <Foreign text={one.type} most={60} />
              </Button>
              <Text size="sm" className="number">
                {value(one)}
              </Text>
            </Group>
          ))}
        </Stack>
      )}
    </Panel>
  );
}

/** By hour or day, newest first: of one type with how long it took, of all with numbers alone. */
function Pieces({ report, bars, name, type }: { report: Report; bars: Bars; name: (seconds: number) => string; type: string }): ReactNode {
  const { t } = useTranslation();
  const items = new Map<number, ReportItem>(type ? report.items.map((item) => [new Date(item.start).getTime() / 1000, item]) : []);
  const rows = bars.starts.map((start, place) => ({ start, ended: bars.ended[place] ?? 0, failed: bars.failed[place] ?? 0 })).reverse();
  return (
    <Panel title={report.by === "day" ? t("reports.by_day") : t("reports.by_hour")} aside={type ? undefined : <Text size="xs" c="dimmed">{t("reports.choose_type")}</Text>}>
      <Box mah={480} style={{ overflowY: "auto" }} tabIndex={0} role="region" aria-label={t("reports.by_day")}>
        <Table stickyHeader data-testid="report-pieces">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("reports.time")}</Table.Th>
              {type ? (
                <NumberHeads />
              ) : (
                <>
                  <Table.Th ta="right">{t("reports.ended")}</Table.Th>
                  <Table.Th ta="right">{t("reports.failed")}</Table.Th>
                </>
              )}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => {
              const item = items.get(row.start);
              return (
                <Table.Tr key={row.start}>
                  <Table.Td className="nowrap">{name(row.start)}</Table.Td>
                  {item ? (
                    <Numbers one={item} />
                  ) : (
                    <>
                      <Table.Td ta="right">{count(row.ended)}</Table.Td>
                      <Table.Td ta="right" colSpan={type ? 6 : 1}>{type ? "" : count(row.failed)}</Table.Td>
                    </>
                  )}
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Box>
    </Panel>
  );
}
