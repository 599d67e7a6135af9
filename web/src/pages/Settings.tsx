import { Badge, Code, Group, Paper, Stack, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { get } from "../api";
import { Empty, Foreign, Loading, PageHead } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { count } from "../format";
import { useServerWords } from "../i18n";
import { useQueryState } from "../router";
import { clip, oneLine, visible } from "../text";
import type { Setting, Settings as Found } from "../types";

const COLORS = { default: "gray", file: "blue", environment: "teal", flag: "grape" } as const;
const MOST_SHOWN = 2_000;
const loadWords = (): Promise<{ default: Readonly<Record<string, string>> }> => import("../locales/settings.zh-CN.json");

export default function Settings(): ReactNode {
  const { t } = useTranslation();
  const [query, change] = useQueryState();
  const [text, setText] = useState(query.get("q") ?? "");
  const isSetOnly = query.has("set");
  const words = useServerWords(loadWords);
  const settings = useQuery({ queryKey: ["settings"], queryFn: ({ signal }) => get<Found>("/settings", {}, signal) });
  const items = settings.data?.items ?? [];
  const shown = items.filter((one) => (!isSetOnly || one.source !== "default") && matches(one, words[one.key] ?? one.text, text));
  const waiting = items.filter((one) => one.restart_needed).length;
  return (
    <Stack>
      <PageHead title={t("settings.title")} note={settings.data && <span className="foreign">{t("settings.about", { node: oneLine(settings.data.node, 100) })}</span>} />
      <ProblemAlert error={settings.error} onRetry={() => void settings.refetch()} />
      {settings.isPending ? (
        <Loading />
      ) : settings.data ? (
        <>
          <Group gap="md" align="flex-end">
            <TextInput
              label={t("settings.search")}
              placeholder={t("settings.search_hint")}
              leftSection={<Search size={14} />}
              value={text}
              maxLength={100}
              miw={240}
              onChange={(event) => {
                setText(event.currentTarget.value);
                change({ q: event.currentTarget.value });
              }}
            />
            <Switch label={t("settings.set_only")} checked={isSetOnly} onChange={(event) => change({ set: event.currentTarget.checked ? "1" : null })} pb={8} />
            {waiting > 0 && <Badge color="orange" variant="light" tt="none" size="lg">{t("settings.waiting", { number: count(waiting) })}</Badge>}
          </Group>
          <Paper withBorder>{shown.length === 0 ? <Empty title={t("tasks.none_match")} /> : <List items={shown} words={words} />}</Paper>
        </>
      ) : null}
    </Stack>
  );
}

function List({ items, words }: { items: readonly Setting[]; words: Readonly<Record<string, string>> }): ReactNode {
  const { t } = useTranslation();
  return (
    <Table data-testid="settings" verticalSpacing="sm" className="stacked">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{t("settings.key")}</Table.Th>
          <Table.Th>{t("settings.value")}</Table.Th>
          <Table.Th visibleFrom="sm">{t("settings.origin")}</Table.Th>
          <Table.Th visibleFrom="sm">{t("settings.changes")}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {items.map((one) => (
          <Table.Tr key={one.key} data-setting={one.key} className="top">
            <Table.Td maw={520}>
              <span className="mono">{one.key}</span>
              <Text size="xs" c="dimmed"><Marked text={words[one.key] ?? one.text} /></Text>
            </Table.Td>
            <Table.Td>
              <Value value={one.value} isBold={one.source !== "default"} />
              {one.source !== "default" && <Text size="xs" c="dimmed" component="div">{t("settings.default")}: <Value value={one.default} /></Text>}
              <Group gap={4} mt={4} hiddenFrom="sm"><Origin setting={one} /><Changes setting={one} /></Group>
            </Table.Td>
            <Table.Td visibleFrom="sm"><Origin setting={one} /></Table.Td>
            <Table.Td visibleFrom="sm"><Changes setting={one} /></Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Origin({ setting }: { setting: Setting }): ReactNode {
  const { t } = useTranslation();
  const exact = setting.source === "file" ? setting.origin : setting.source === "environment" ? setting.origin.slice("environment ".length) : "";
  return (
    <>
      <Badge variant="light" color={COLORS[setting.source]} tt="none" miw="max-content">{t(`settings.source_${setting.source}`)}</Badge>
      {exact && <Text size="xs" c="dimmed" className="mono"><Foreign text={exact} /></Text>}
    </>
  );
}

function Changes({ setting }: { setting: Setting }): ReactNode {
  const { t } = useTranslation();
  if (setting.restart_needed) return <Badge variant="light" color="orange" tt="none" miw="max-content">{t("settings.restart_needed")}</Badge>;
  return <Text size="sm" c={setting.live ? undefined : "dimmed"} className="nowrap" span>{t(setting.live ? "settings.live" : "settings.restart")}</Text>;
}

function Value({ value, isBold }: { value: unknown; isBold?: boolean }): ReactNode {
  return <Code fw={isBold ? 700 : undefined} className="foreign">{clip(visible(written(value)), MOST_SHOWN)}</Code>;
}

/** A value as one would write it in the file. */
function written(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
}

/** What the server says about a setting has code between backquotes. */
function Marked({ text }: { text: string }): ReactNode {
  return text.split("`").map((piece, place) => (place % 2 === 1 ? <span key={place} className="mono">{piece}</span> : piece));
}

function matches(one: Setting, words: string, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return [one.key, words, written(one.value), one.origin].some((field) => field.toLowerCase().includes(wanted));
}
