// Make a calendar, or change its days. What is not shown here as days stays as it is.

import { Button, Group, NativeSelect, SimpleGrid, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { part, put } from "../api";
import { daysFrom, daysOf, FIRST_YEAR, LAST_YEAR, MOST_DAYS, withDays, yearOf } from "../days";
import type { Calendar } from "../types";
import { useUnsaved } from "../unsaved";
import { Command, PageHead, Panel } from "./bits";
import { CalendarParts } from "./CalendarParts";
import { NumberField } from "./NumberField";
import { notifyDone, ProblemAlert } from "./problem";
import { useYear, Year, YearSwitch } from "./Year";

const STARTS = ["none", "week", "business_days", "holidays"] as const;
type Start = (typeof STARTS)[number];
const A_WEEK = { weekdays: [1, 2, 3, 4, 5], holidays: [], workdays: [] };
const BLANK: Calendar = { name: "", tenant: "", description: "", origin: "", years: [], revision: 0, created_at: null, updated_at: null, dates: [], windows: [], periods: [], business_days: null };

interface Draft {
  calendar: Calendar;
  first: number | string; // of the years that it knows
  last: number | string;
  start: Start; // of a new one
  country: string;
}

const toDraft = (calendar: Calendar): Draft => ({ calendar, first: calendar.years[0] ?? "", last: calendar.years[1] ?? "", start: "none", country: "" });
const yearsOf = ({ first, last }: Draft): number[] => [first, last].filter((year) => year !== "").map(Number);
const isOfCountry = ({ start }: Draft): boolean => start === "business_days" || start === "holidays";

/** All that was read but for what the server notes by itself: what this page does not know, of a later release, stays too. */
function toBody(draft: Draft): object {
  const { name, tenant, origin, created_at, updated_at, ...kept } = draft.calendar;
  if (!isOfCountry(draft)) return { ...kept, years: yearsOf(draft) };
  const years = { first_year: draft.first === "" ? null : Number(draft.first), last_year: draft.last === "" ? null : Number(draft.last) };
  return { ...kept, ...years, country: draft.country.trim().toUpperCase(), country_days: draft.start };
}

export function CalendarForm({ calendar, onDone }: { calendar: Calendar | null; onDone: (stored: Calendar | null) => void }): ReactNode {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [given] = useState(() => toDraft(calendar ?? BLANK));
  const [draft, setDraft] = useState(given);
  const { leave, release } = useUnsaved(JSON.stringify(draft) !== JSON.stringify(given));
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const change: Change = (changes) => setDraft((before) => ({ ...before, ...changes, calendar: { ...before.calendar, ...changes.calendar } }));

  const store = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const stored = await put<Calendar>(`/calendars/${part(draft.calendar.name.trim())}`, toBody(draft));
      queries.setQueryData(["calendars", "one", stored.name], stored);
      void queries.invalidateQueries({ queryKey: ["calendars"] });
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
        <PageHead title={calendar ? t("calendars.edit_title", { name: calendar.name }) : t("calendars.new")}>
          <Button variant="default" size="xs" onClick={() => leave(() => onDone(null))}>{t("common.back")}</Button>
          <Button size="xs" type="submit" loading={isBusy} disabled={!draft.calendar.name.trim()}>{t("configs.store")}</Button>
        </PageHead>
        <ProblemAlert error={error} />
        <Basics draft={draft} change={change} isNew={calendar === null} />
        {isOfCountry(draft) ? <Text size="sm" c="dimmed">{t("calendars.country_days")}</Text> : <DayFields draft={draft} change={change} />}
        {calendar && <Kept calendar={draft.calendar} />}
        <Button type="submit" loading={isBusy} disabled={!draft.calendar.name.trim()} hiddenFrom="sm">{t("configs.store")}</Button>
      </Stack>
    </form>
  );
}

type Change = (changes: Partial<Omit<Draft, "calendar">> & { calendar?: Partial<Calendar> }) => void;

interface FieldsProps {
  draft: Draft;
  change: Change;
}

function Basics({ draft, change, isNew }: FieldsProps & { isNew: boolean }): ReactNode {
  const { t } = useTranslation();
  const { name, description } = draft.calendar;
  const begin = (start: Start): void => change({ start, calendar: { business_days: start === "week" ? A_WEEK : null } });
  const needs = (other: number | string): boolean => other !== "" && !isOfCountry(draft); // of a country the server knows some by itself
  return (
    <Panel title={t("configs.basics")}>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {isNew && <TextInput label={t("configs.name")} description={t("calendars.name_note")} required value={name} onChange={(event) => change({ calendar: { name: event.currentTarget.value } })} placeholder="holidays" maxLength={200} />}
        {isNew && (
          <Group grow align="flex-end">
            <NativeSelect label={t("calendars.start")} data={STARTS.map((value) => ({ value, label: t(`calendars.start_${value}`) }))} value={draft.start} onChange={(event) => begin(event.currentTarget.value as Start)} />
            {isOfCountry(draft) && <TextInput label={t("calendars.country")} required value={draft.country} onChange={(event) => change({ country: event.currentTarget.value })} placeholder="CN" maxLength={16} />}
          </Group>
        )}
        <Textarea label={t("configs.description")} autosize minRows={1} value={description} onChange={(event) => change({ calendar: { description: event.currentTarget.value } })} maxLength={2000} />
        <Stack gap={4}>
          <Group grow align="flex-start">
            <NumberField label={t("calendars.first_year")} placeholder={t("calendars.all_years")} required={needs(draft.last)} withAsterisk={false} min={FIRST_YEAR} max={LAST_YEAR} allowDecimal={false} value={draft.first} onChange={(first) => change({ first })} />
            <NumberField label={t("calendars.last_year")} placeholder={t("calendars.all_years")} required={needs(draft.first)} withAsterisk={false} min={FIRST_YEAR} max={LAST_YEAR} allowDecimal={false} value={draft.last} onChange={(last) => change({ last })} />
          </Group>
          <Text size="xs" c="dimmed">{t("calendars.years_note")}</Text>
        </Stack>
      </SimpleGrid>
    </Panel>
  );
}

function DayFields({ draft, change }: FieldsProps): ReactNode {
  const { t } = useTranslation();
  const years = yearsOf(draft);
  const parts = { ...draft.calendar, years: years.length === 2 ? years : [] };
  const [year, setYear] = useYear(parts.years);
  const set = (days: readonly string[], isWanted: boolean): void => {
    const { dates, business_days } = withDays(draft.calendar, days, isWanted);
    change({ calendar: { dates, business_days } });
  };
  return (
    <Panel title={t("calendars.days")} aside={<YearSwitch year={year} onChange={setYear} />}>
      <Stack>
        <Text size="sm" c="dimmed">{t("calendars.click")}</Text>
        <Year parts={parts} year={year} onToggle={(day) => set([day], !daysOf(draft.calendar).isIn(day))} />
        <SpanFields
          onSet={(days, isWanted) => {
            set(days, isWanted);
            setYear(yearOf(days[0] ?? ""));
          }}
        />
      </Stack>
    </Panel>
  );
}

/** Days from one on to another, which are typed. */
function SpanFields({ onSet }: { onSet: (days: readonly string[], isWanted: boolean) => void }): ReactNode {
  const { t } = useTranslation();
  const [first, setFirst] = useState("");
  const [last, setLast] = useState("");
  const days = first && yearOf(first) >= FIRST_YEAR ? daysFrom(first, last || first) : [];
  const isFit = days.length > 0 && days.length <= MOST_DAYS;
  const act = (isWanted: boolean): void => {
    onSet(days, isWanted);
    setFirst("");
    setLast("");
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it is not the whole that is to be saved
    if (isFit) act(true);
  };
  const bounds = { type: "date", min: `${FIRST_YEAR}-01-01`, max: `${LAST_YEAR}-12-31`, onKeyDown };
  return (
    <Group align="flex-end" gap="xs">
      <TextInput {...bounds} label={t("calendars.from")} value={first} onChange={(event) => setFirst(event.currentTarget.value)} />
      <TextInput {...bounds} label={t("calendars.to")} value={last} onChange={(event) => setLast(event.currentTarget.value)} />
      <Button variant="default" disabled={!isFit} onClick={() => act(true)}>{t("calendars.add")}</Button>
      <Button variant="default" disabled={!isFit} onClick={() => act(false)}>{t("calendars.take_out")}</Button>
    </Group>
  );
}

/** What is changed elsewhere. */
function Kept({ calendar }: { calendar: Calendar }): ReactNode {
  const { t } = useTranslation();
  const hasParts = calendar.business_days !== null || calendar.windows.length + calendar.periods.length > 0;
  if (!hasParts && !calendar.origin) return null;
  return (
    <Panel title={t("calendars.kept")}>
      <Stack gap="sm">
        <CalendarParts calendar={calendar} />
        {hasParts && <Text size="sm" c="dimmed">{t("calendars.kept_note")}</Text>}
        {hasParts && <Command text={`rota calendar put ${calendar.name} -f FILE`} />}
        {calendar.origin && <Text size="sm" c="dimmed">{t("calendars.origin_goes")}</Text>}
      </Stack>
    </Panel>
  );
}
