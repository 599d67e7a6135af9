// Ctrl-K: a page, a task by its id, a type by its name.

import { Kbd, Modal, NavLink, ScrollArea, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleDot, Hash, Search, Settings2 } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { ENTRIES } from "./App";
import { get, part } from "./api";
import { go } from "./router";
import { useSession } from "./session";
import { oneLine } from "./text";
import { type Page, STATUSES, type TaskConfig } from "./types";

const MOST_CHOICES = 30;
const MOST_CONFIGS = 1000;
const LIST = "palette-choices";
const idOf = (place: number): string => `${LIST}-${place}`;

interface Choice {
  label: string;
  to: string;
  icon: ReactNode;
}

export function Palette({ opened, onClose }: { opened: boolean; onClose: () => void }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const configs = useQuery({
    queryKey: ["configs", "palette"],
    queryFn: ({ signal }) => get<Page<TaskConfig>>("/task-configs", { limit: MOST_CONFIGS }, signal),
    enabled: opened,
  });
  useEffect(() => {
    if (opened) {
      setText("");
      setChosen(0);
    }
  }, [opened]);

  const choices = useMemo<Choice[]>(() => {
    const wanted = text.trim().toLowerCase();
    const found: Choice[] = [];
    const isId = /^\d{3,19}$/.test(wanted);
    if (isId) {
      found.push({ label: t("palette.task", { id: wanted }), to: `/tasks/${wanted}`, icon: <Hash size={16} /> });
    }
    const add = (choice: Choice): void => {
      if (choice.label.toLowerCase().includes(wanted)) found.push(choice);
    };
    for (const entry of ENTRIES.filter((one) => can(one.role))) {
      add({ label: t(`nav.${entry.name}`), to: entry.to, icon: <entry.icon size={16} /> });
    }
    if (wanted) {
      for (const status of STATUSES) {
        add({ label: `${t("nav.tasks")}: ${t(`status.${status}`)}`, to: `/tasks?status=${status}`, icon: <CircleDot size={16} /> });
      }
      for (const config of configs.data?.items ?? []) {
        add({ label: oneLine(config.type, 80), to: `/task-configs/${part(config.type)}`, icon: <Settings2 size={16} /> });
      }
    }
    const shown = found.slice(0, MOST_CHOICES);
    if (wanted && !isId) shown.push({ label: t("palette.search", { text: oneLine(text, 60) }), to: `/tasks?q=${part(text.trim())}`, icon: <Search size={16} /> });
    if (wanted && !isId && configs.data?.next_cursor) shown.push({ label: t("palette.search_types", { text: oneLine(text, 60) }), to: `/task-configs?q=${part(text.trim())}`, icon: <Settings2 size={16} /> });
    return shown; // what Enter takes is a place of that name, if there is one
  }, [text, t, can, configs.data]);

  useEffect(() => {
    void document.getElementById(idOf(chosen))?.scrollIntoView({ block: "nearest" });
  }, [chosen]);

  const take = (choice: Choice | undefined): void => {
    if (!choice) return;
    onClose();
    go(choice.to);
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setChosen((at) => Math.min(at + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setChosen((at) => Math.max(at - 1, 0));
    else if (event.key === "Enter") take(choices[chosen]);
    else return;
    event.preventDefault();
  };

  return (
    <Modal opened={opened} onClose={onClose} withCloseButton={false} size="lg" padding="sm" yOffset="10vh" title={t("palette.open")} styles={{ header: { display: "none" }, body: { paddingTop: "var(--mantine-spacing-sm)" } }}>
      <TextInput
        data-autofocus
        role="combobox"
        aria-expanded
        aria-controls={LIST}
        aria-activedescendant={choices.length > 0 ? idOf(chosen) : undefined}
        placeholder={t("palette.hint")}
        aria-label={t("palette.open")}
        leftSection={<Search size={16} />}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={move}
      />
      <ScrollArea.Autosize mah="50vh" mt="xs" viewportProps={{ id: LIST, role: "listbox", "aria-label": t("palette.open") }}>
        {choices.map((choice, place) => (
          <NavLink key={choice.to + choice.label} id={idOf(place)} role="option" aria-selected={place === chosen} tabIndex={-1} label={choice.label} leftSection={choice.icon} active={place === chosen} onClick={() => take(choice)} onMouseMove={() => setChosen(place)} component="button" type="button" />
        ))}
      </ScrollArea.Autosize>
      <Text size="xs" c="dimmed" mt="xs">
        <Kbd size="xs">↑</Kbd> <Kbd size="xs">↓</Kbd> {t("palette.choose")} · <Kbd size="xs">Enter</Kbd> {t("palette.go")} · <Kbd size="xs">Esc</Kbd> {t("common.close")}
      </Text>
      <Text size="xs" c="dimmed" mt={4} visibleFrom="sm">
        {t("palette.in_lists")} <Kbd size="xs">J</Kbd> <Kbd size="xs">K</Kbd> {t("palette.step")} · <Kbd size="xs">X</Kbd> {t("palette.choose")} · <Kbd size="xs">/</Kbd> {t("palette.find")}
      </Text>
    </Modal>
  );
}
