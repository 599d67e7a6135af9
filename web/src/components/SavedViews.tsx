// Filters and columns under a name of one's own; the browser keeps them.

import { ActionIcon, Button, Group, Menu, Text, TextInput } from "@mantine/core";
import { Bookmark, Trash2 } from "lucide-react";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { oneLine } from "../text";

const KEPT = "rota-task-views";
const MOST = 50;
const LONGEST = 60;

export interface View {
  name: string;
  query: string;
  columns: string[];
}

function isView(value: unknown): value is View {
  const view = value as Partial<View> | null;
  return typeof view?.name === "string" && typeof view.query === "string" && Array.isArray(view.columns) && view.columns.every((one) => typeof one === "string");
}

function read(): View[] {
  try {
    const kept: unknown = JSON.parse(window.localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isView).slice(0, MOST) : [];
  } catch {
    return []; // somebody else wrote there
  }
}

export function SavedViews({ query, columns, onChoose }: { query: URLSearchParams; columns: readonly string[]; onChoose: (view: View) => void }): ReactNode {
  const { t } = useTranslation();
  const [views, setViews] = useState(read);
  const [name, setName] = useState("");
  const keep = (next: View[]): void => {
    window.localStorage.setItem(KEPT, JSON.stringify(next));
    setViews(next);
  };
  const store = (event: FormEvent): void => {
    event.preventDefault();
    const shown = new URLSearchParams(query);
    shown.delete("cursor");
    const view = { name: name.trim(), query: shown.toString(), columns: [...columns] };
    keep([...views.filter((one) => one.name !== view.name), view].slice(-MOST));
    setName("");
  };
  return (
    <Menu width={280} closeOnItemClick={false} trapFocus={false}>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<Bookmark size={14} />}>{t("tasks.views")}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {views.length === 0 && <Text size="sm" c="dimmed" px="sm" py={4}>{t("tasks.no_views")}</Text>}
        {views.map((view) => (
          <Group key={view.name} gap={0} wrap="nowrap">
            <Menu.Item onClick={() => onChoose(view)} closeMenuOnClick><span className="foreign">{oneLine(view.name, LONGEST)}</span></Menu.Item>
            <ActionIcon variant="subtle" color="gray" aria-label={t("tasks.remove_view", { name: oneLine(view.name, LONGEST) })} onClick={() => keep(views.filter((one) => one !== view))}>
              <Trash2 size={14} />
            </ActionIcon>
          </Group>
        ))}
        <Menu.Divider />
        <form onSubmit={store}>
          <Group gap="xs" px="xs" pb={4} align="flex-end" wrap="nowrap">
            <TextInput size="xs" label={t("tasks.view_name")} maxLength={LONGEST} value={name} onChange={(event) => setName(event.currentTarget.value)} onKeyDown={(event) => event.stopPropagation()} />
            <Button size="xs" type="submit" disabled={name.trim() === ""}>{t("configs.store")}</Button>
          </Group>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}
