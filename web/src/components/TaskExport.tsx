// What matches, as a file: page after page, so that neither the server nor the page holds more than it must at once.

import { Button, Menu, Text } from "@mantine/core";
import { Download, X } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { get } from "../api";
import { between, count } from "../format";
import { writeJson } from "../json";
import { saveBlob } from "../text";
import type { Page, Task } from "../types";
import { notifyDone, notifyProblem } from "./problem";

const MOST_TASKS = 100_000;
const MOST_CHARACTERS = 200_000_000;
const PAGE = 1000;

const COLUMNS: Record<string, (task: Task) => string | number> = {
  id: (task) => task.id,
  type: (task) => task.type,
  name: (task) => task.name,
  status: (task) => task.status,
  priority: (task) => task.priority,
  attempt: (task) => task.attempt,
  created_at: (task) => task.created_at,
  scheduled_at: (task) => task.scheduled_at ?? "",
  started_at: (task) => task.started_at ?? "",
  completed_at: (task) => task.completed_at ?? "",
  seconds: (task) => (task.started_at && task.completed_at ? between(task.started_at, task.completed_at) : ""),
  worker_id: (task) => task.worker_id ?? "",
  error_code: (task) => task.error?.code ?? "",
  error_message: (task) => task.error?.message ?? "",
  metadata: (task) => (Object.keys(task.metadata).length > 0 ? JSON.stringify(task.metadata) : ""),
};

/** A cell that no spreadsheet takes for a formula. Ids stay as they are, for programs: a spreadsheet is told to read them as text. */
function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const FORMS = {
  csv: {
    head: `\ufeff${Object.keys(COLUMNS).join(",")}\r\n`,
    line: (task: Task) => `${Object.values(COLUMNS).map((column) => cell(column(task))).join(",")}\r\n`,
    type: "text/csv;charset=utf-8",
    full: false,
  },
  jsonl: { head: "", line: (task: Task) => `${writeJson(task)}\n`, type: "application/jsonl", full: true },
} as const;
type Form = keyof typeof FORMS;
type Query = Record<string, string | string[] | undefined>;

export function TaskExport({ query }: { query: () => Query }): ReactNode {
  const { t } = useTranslation();
  const [done, setDone] = useState<number | null>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  const run = async (form: Form): Promise<void> => {
    const stop = new AbortController();
    running.current = stop;
    const { head, line, type, full } = FORMS[form];
    const asked = query(); // once: "the last 15 minutes" would go on with the clock and leave out the oldest
    const parts: string[] = [head];
    let [number, size] = [0, 0];
    setDone(0);
    try {
      for (let cursor: string | null = ""; cursor !== null && number < MOST_TASKS && size < MOST_CHARACTERS; ) {
        const page: Page<Task> = await get<Page<Task>>("/tasks", { ...asked, limit: PAGE, cursor, full: full || undefined }, stop.signal);
        const text = page.items.map(line).join("");
        parts.push(text);
        size += text.length;
        number += page.items.length;
        cursor = page.next_cursor;
        setDone(number);
        if (cursor !== null && (number >= MOST_TASKS || size >= MOST_CHARACTERS)) notifyDone(t("tasks.export_cut", { number: count(number) }));
      }
      saveBlob(`tasks.${form}`, new Blob(parts, { type }));
    } catch (error) {
      if (!stop.signal.aborted) notifyProblem(error);
    } finally {
      setDone(null);
    }
  };

  if (done !== null) {
    return (
      <Button variant="default" size="xs" leftSection={<X size={14} />} onClick={() => running.current?.abort()}>
        {t("tasks.exporting", { number: count(done) })}
      </Button>
    );
  }
  return (
    <Menu>
      <Menu.Target>
        <Button variant="default" size="xs" leftSection={<Download size={14} />}>{t("tasks.export")}</Button>
      </Menu.Target>
      <Menu.Dropdown maw={300}>
        <Menu.Item onClick={() => void run("csv")}>CSV</Menu.Item>
        <Menu.Item onClick={() => void run("jsonl")}>{t("tasks.json_lines")}</Menu.Item>
        <Text size="xs" c="dimmed" px="sm" pb="xs">{t("tasks.export_note", { number: count(MOST_TASKS) })}</Text>
      </Menu.Dropdown>
    </Menu>
  );
}
