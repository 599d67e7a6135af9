import { Button, Group, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError, get, part, remove } from "../api";
import { Field, Foreign, Loading, PageHead, Panel, TextLink } from "../components/bits";
import { CalendarForm } from "../components/CalendarForm";
import { CalendarParts } from "../components/CalendarParts";
import { useUsers } from "../components/calendars";
import { useConfirm } from "../components/confirm";
import { notifyDone, notifyProblem, ProblemAlert, ServerWords } from "../components/problem";
import { useYear, Year, YearSwitch } from "../components/Year";
import { Time } from "../format";
import { useLive } from "../live";
import { go } from "../router";
import { useSession } from "../session";
import type { Calendar } from "../types";

const NEW = "+new"; // no calendar can have this name

export default function CalendarDetail({ name }: { name: string }): ReactNode {
  const { t } = useTranslation();
  const { every } = useLive();
  const [edited, setEdited] = useState<Calendar | null>(null); // as it was when somebody began to edit it
  const calendar = useQuery({
    queryKey: ["calendars", "one", name],
    queryFn: ({ signal }) => get<Calendar>(`/calendars/${part(name)}`, {}, signal),
    enabled: name !== NEW,
    refetchInterval: every,
  });
  if (name === NEW) return <CalendarForm calendar={null} onDone={(stored) => go(stored ? `/calendars/${part(stored.name)}` : "/calendars")} />;
  if (edited) {
    return (
      <CalendarForm
        calendar={edited}
        onDone={() => {
          setEdited(null);
          void calendar.refetch();
        }}
      />
    );
  }
  if (calendar.isPending) return <Loading />;
  if (!calendar.data) {
    const isGone = calendar.error instanceof ApiError && calendar.error.problem.status === 404;
    return (
      <Stack>
        <ProblemAlert error={calendar.error} onRetry={isGone ? undefined : () => void calendar.refetch()} />
        <TextLink to="/calendars">{t("nav.calendars")}</TextLink>
      </Stack>
    );
  }
  return <Shown calendar={calendar.data} onEdit={() => setEdited(calendar.data)} />;
}

function Shown({ calendar, onEdit }: { calendar: Calendar; onEdit: () => void }): ReactNode {
  const { t } = useTranslation();
  const [year, setYear] = useYear(calendar.years);
  return (
    <Stack>
      <Head calendar={calendar} onEdit={onEdit} />
      <Panel title={t("calendars.days")} aside={<YearSwitch year={year} onChange={setYear} />}>
        <Year parts={calendar} year={year} />
      </Panel>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Panel title={t("calendars.what")}>
          <Stack gap="sm">
            <Group gap="xl" align="flex-start">
              <Field label={t("calendars.years")}>{calendar.years.join("–") || t("calendars.all_years")}</Field>
              <Field label={t("configs.updated")}><Time at={calendar.updated_at} /></Field>
              <Field label={t("configs.revision")}>{calendar.revision}</Field>
            </Group>
            {calendar.origin && <Field label={t("calendars.origin")}><ServerWords text={calendar.origin} isAside /></Field>}
            <CalendarParts calendar={calendar} />
          </Stack>
        </Panel>
        <Users name={calendar.name} />
      </SimpleGrid>
    </Stack>
  );
}

function Head({ calendar, onEdit }: { calendar: Calendar; onEdit: () => void }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const erase = async (): Promise<void> => {
    if (!(await confirm({ title: t("calendars.delete_title"), text: t("calendars.delete_text"), action: t("configs.delete") }))) return;
    try {
      await remove(`/calendars/${part(calendar.name)}`);
      notifyDone(t("configs.is_deleted"));
      go("/calendars");
    } catch (error) {
      notifyProblem(error); // also that schedules name it, and which
    }
    void queries.invalidateQueries({ queryKey: ["calendars"] });
  };
  return (
    <PageHead title={<Foreign text={calendar.name} />} note={calendar.description && <Foreign text={calendar.description} most={2000} />}>
      {can("admin") && (
        <>
          <Button size="xs" variant="default" leftSection={<Pencil size={14} />} onClick={onEdit}>{t("configs.edit")}</Button>
          <Button size="xs" variant="light" color="red" leftSection={<Trash2 size={14} />} onClick={() => void erase()}>{t("configs.delete")}</Button>
        </>
      )}
    </PageHead>
  );
}

function Users({ name }: { name: string }): ReactNode {
  const { t } = useTranslation();
  const users = useUsers();
  const found = users?.of(name) ?? [];
  return (
    <Panel title={t("calendars.used_by")}>
      <Stack gap={4} data-testid="users">
        {found.map(({ type, keepsTo }) => (
          <Group key={`${type} ${keepsTo}`} gap="xs">
            <TextLink to={`/task-configs/${part(type)}`}><Foreign text={type} /></TextLink>
            <Text size="xs" c="dimmed">{t(keepsTo ? "calendars.keeps_to" : "calendars.keeps_out")}</Text>
          </Group>
        ))}
        {found.length === 0 && <Text size="sm" c="dimmed">{users && !users.isPart ? t("calendars.unused") : "–"}</Text>}
      </Stack>
    </Panel>
  );
}
