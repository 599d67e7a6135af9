import { Button, Group, Paper, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { get, part } from "../api";
import { dayAt, daysOf, daysOfYear, nextDay } from "../days";
import { Empty, Foreign, Known, PageHead, TextLink } from "../components/bits";
import { useUsers } from "../components/calendars";
import { ProblemAlert } from "../components/problem";
import { sayDay, useZone } from "../components/Year";
import { count } from "../format";
import { useLive } from "../live";
import { go } from "../router";
import { useSession } from "../session";
import type { Calendar, CalendarSummary, Page } from "../types";

const PAGE = 50; // each is read by itself for its days
const MOST_NAMES = 3;

export default function Calendars(): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const { every } = useLive();
  const calendars = useInfiniteQuery({
    queryKey: ["calendars", "list"],
    queryFn: ({ pageParam, signal }) => get<Page<CalendarSummary>>("/calendars", { limit: PAGE, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: every,
  });
  const items = calendars.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageHead title={t("nav.calendars")} note={t("calendars.about")}>
        {can("admin") && <Button size="xs" leftSection={<Plus size={14} />} onClick={() => go("/calendars/+new")}>{t("calendars.new")}</Button>}
      </PageHead>
      <ProblemAlert error={calendars.error} onRetry={() => void calendars.refetch()} />
      <Paper withBorder>
        <Known of={[calendars]}>
          {items.length === 0 ? (
            <Empty title={t("calendars.empty")} text={t("calendars.empty_text")} command="rota calendar put holidays --country CN --holidays" />
          ) : (
            <Table.ScrollContainer minWidth={640}>
              <Table highlightOnHover data-testid="calendars" className="cards">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("calendars.name")}</Table.Th>
                    <Table.Th>{t("calendars.years")}</Table.Th>
                    <Table.Th ta="right">{t("calendars.days_in", { year: new Date().getFullYear() })}</Table.Th>
                    <Table.Th>{t("calendars.next")}</Table.Th>
                    <Table.Th>{t("calendars.used_by")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>{items.map((one) => <Row key={one.name} calendar={one} />)}</Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </Known>
      </Paper>
      {calendars.hasNextPage && (
        <Group justify="center"><Button variant="default" size="xs" onClick={() => void calendars.fetchNextPage()}>{t("common.more")}</Button></Group>
      )}
    </Stack>
  );
}

function Row({ calendar }: { calendar: CalendarSummary }): ReactNode {
  const { t } = useTranslation();
  const { data } = useQuery({
    queryKey: ["calendars", "days", calendar.name, calendar.updated_at], // read anew when it has changed, not before
    queryFn: ({ signal }) => get<Calendar>(`/calendars/${part(calendar.name)}`, {}, signal),
    staleTime: Infinity,
  });
  const year = new Date().getFullYear();
  return (
    <Table.Tr data-calendar={calendar.name}>
      <Table.Td>
        <TextLink to={`/calendars/${part(calendar.name)}`}><Foreign text={calendar.name} /></TextLink>
        {calendar.description && <Text size="xs" c="dimmed" lineClamp={1}><Foreign text={calendar.description} /></Text>}
      </Table.Td>
      <Table.Td className="nowrap" data-label={t("calendars.years")}>{calendar.years.join("–") || t("calendars.all_years")}</Table.Td>
      <Table.Td ta="right" className="number" data-label={t("calendars.days_in", { year })}>{data ? <Count calendar={data} year={year} /> : "–"}</Table.Td>
      <Table.Td data-label={t("calendars.next")}>{data ? <Next calendar={data} /> : "–"}</Table.Td>
      <Table.Td data-label={t("calendars.used_by")}><Users name={calendar.name} /></Table.Td>
    </Table.Tr>
  );
}

/** How many whole days, and how many parts of days beside them. */
function Count({ calendar, year }: { calendar: Calendar; year: number }): ReactNode {
  const { t } = useTranslation();
  const days = daysOf(calendar);
  const whole = days.knows(year) ? daysOfYear(year).filter(days.isIn).length : 0;
  const spans = calendar.windows.length + calendar.periods.length;
  return (
    <>
      {count(whole)}
      {spans > 0 && <Text size="xs" c="dimmed">{t("calendars.spans", { number: count(spans) })}</Text>}
    </>
  );
}

function Next({ calendar }: { calendar: Calendar }): ReactNode {
  const zone = useZone();
  const next = nextDay(daysOf(calendar, zone), dayAt(Date.now(), zone));
  return next ? <span className="nowrap">{sayDay(next, { weekday: "short", year: "numeric", month: "short", day: "numeric" })}</span> : "–";
}

function Users({ name }: { name: string }): ReactNode {
  const { t } = useTranslation();
  const users = useUsers();
  const types = [...new Set(users?.of(name).map((one) => one.type))];
  if (!users || (types.length === 0 && users.isPart)) return "–";
  if (types.length === 0) return <Text size="sm" c="dimmed">{t("calendars.unused")}</Text>;
  return (
    <>
      {types.slice(0, MOST_NAMES).map((type) => <div key={type}><TextLink to={`/task-configs/${part(type)}`}><Foreign text={type} most={60} /></TextLink></div>)}
      {types.length > MOST_NAMES && <Text size="xs" c="dimmed">{t("forecast.more", { number: count(types.length - MOST_NAMES) })}</Text>}
    </>
  );
}
