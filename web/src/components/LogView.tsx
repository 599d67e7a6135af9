// The record of a task, line by line as it is written. Only what is on the screen is drawn, so that a hundred thousand
// lines scroll as ten do.

import { Badge, Button, Group, NativeSelect, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Download, Search } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { styled } from "../ansi";
import { at, part } from "../api";
import { count, useTimeKind } from "../format";
import { language } from "../i18n";
import { useLive } from "../live";
import { GRAVITIES, type Gravity, inOrder, isAsGrave, keptOf } from "../record";
import { follow } from "../stream";
import { clip, save, visible } from "../text";
import type { LogLine } from "../types";
import { Empty, ink } from "./bits";
import { ProblemAlert } from "./problem";

const MOST_LINES = 100_000; // of a longer record the first ones are let go
const DRAW_MS = 100;
const LONGEST = 20_000; // characters of one line that are drawn
const BACK_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);

export interface TaskRecord {
  lines: readonly LogLine[];
  state: "loading" | "live" | "reconnecting" | "ended";
  dropped: number;
  error: unknown;
}

/** Follow the record of a task until it has ended. */
export function useRecord(id: string): TaskRecord {
  const { state: live } = useLive();
  const [record, setRecord] = useState<TaskRecord>({ lines: [], state: "loading", dropped: 0, error: null });
  const last = useRef<string | null>(null);
  const isEnded = record.state === "ended";
  const rests = live === "paused";

  useEffect(() => {
    if (rests || isEnded) return;
    let waiting: LogLine[] = [];
    let isOver = false;
    const draw = (): void => {
      if (waiting.length === 0 && !isOver) return;
      const fresh = waiting;
      waiting = [];
      setRecord((before) => {
        const lines = [...before.lines, ...fresh];
        const surplus = Math.max(lines.length - MOST_LINES, 0);
        return { ...before, lines: lines.slice(surplus), dropped: before.dropped + surplus, state: isOver ? "ended" : before.state };
      });
    };
    const timer = setInterval(draw, DRAW_MS);
    const stop = follow(
      at(`/tasks/${part(id)}/logs`),
      {
        onState: (state) => setRecord((before) => ({ ...before, state, error: null })),
        onError: (error) => setRecord((before) => ({ ...before, error })),
        onMessage: (message) => {
          if (message.event === "log") {
            waiting.push(JSON.parse(message.data) as LogLine);
            last.current = message.id;
          } else if (message.event === "end") {
            isOver = true;
            draw();
            return true;
          }
          return false;
        },
      },
      last.current,
    );
    return () => {
      draw();
      clearInterval(timer);
      stop();
    };
  }, [id, rests, isEnded]);
  return record;
}

export function LogView({ record, name }: { record: TaskRecord; name: string }): ReactNode {
  const { t } = useTranslation();
  const [wanted, setWanted] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const [isOwnOnly, setOwnOnly] = useState(false);
  const [gravity, setGravity] = useState<Gravity>("all");
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => inOrder(record.lines), [record.lines]);
  const kept = useMemo(() => keptOf(record.lines), [record.lines]);
  const shown = useMemo(() => {
    const text = wanted.trim().toLowerCase();
    return lines.filter(
      (line) => isAsGrave(line, gravity) && (!isOwnOnly || line.to_status === null) && (!text || `${line.message}\n${line.detail}`.toLowerCase().includes(text)),
    );
  }, [lines, wanted, gravity, isOwnOnly]);
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => box.current,
    estimateSize: () => 20,
    overscan: 20,
    getItemKey: (place) => shown[place]?.seq ?? place,
  });
  useEffect(() => {
    if (isFollowing && shown.length > 0) rows.scrollToIndex(shown.length - 1, { align: "end" });
  }, [isFollowing, shown.length, rows]);

  const stay = (): void => setFollowing(false); // whoever reads further up is not taken away from it
  const write = (): void => save(name, lines.map(toText).join("\n"));
  return (
    <Stack gap="xs">
      <Group justify="space-between" gap="xs">
        <Group gap="sm">
          <TextInput size="xs" leftSection={<Search size={14} />} placeholder={t("log.search")} aria-label={t("log.search")} value={wanted} onChange={(event) => setWanted(event.currentTarget.value)} />
          <NativeSelect size="xs" aria-label={t("log.level")} value={gravity} onChange={(event) => setGravity(event.currentTarget.value as Gravity)} data={GRAVITIES.map((value) => ({ value, label: t(`log.levels.${value}`) }))} />
          <Switch size="xs" label={t("log.follow")} checked={isFollowing} onChange={(event) => setFollowing(event.currentTarget.checked)} />
          <Switch size="xs" label={t("log.own")} checked={isOwnOnly} onChange={(event) => setOwnOnly(event.currentTarget.checked)} />
        </Group>
        <Group gap="xs">
          <State record={record} kept={kept} />
          <Text size="xs" c="dimmed">{t(shown.length === 1 ? "log.line" : "log.lines", { number: count(shown.length) })}</Text>
          <Button size="compact-xs" variant="default" leftSection={<Download size={12} />} onClick={write} disabled={record.lines.length === 0}>
            {t("common.download")}
          </Button>
        </Group>
      </Group>
      {record.dropped > 0 && <Text size="xs" c="dimmed">{t("log.dropped", { number: count(record.dropped) })}</Text>}
      <ProblemAlert error={record.error} />
      <div className="log" ref={box} tabIndex={0} role="log" aria-label={t("task.logs")} onWheel={(event) => event.deltaY < 0 && stay()} onTouchMove={stay} onKeyDown={(event) => BACK_KEYS.has(event.key) && stay()}>
        {shown.length === 0 && <Empty title={lines.length === 0 ? t("log.empty") : t("log.none_match")} text={kept === null ? undefined : t("log.not_kept", { kib: kib(kept) })} />}
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const line = shown[row.index];
            return (
              <div key={row.key} data-index={row.index} ref={rows.measureElement} style={{ position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${row.start}px)` }}>
                {line && <Line line={line} />}
              </div>
            );
          })}
        </div>
      </div>
    </Stack>
  );
}

const kib = (bytes: number): string => count(bytes / 1024);

/** Whether more is to come, and whether all that was written is here. */
function State({ record: { state }, kept }: { record: TaskRecord; kept: number | null }): ReactNode {
  const { t } = useTranslation();
  const color = state === "live" ? "teal.6" : state === "reconnecting" ? "yellow.6" : "gray.5";
  return (
    <>
      {kept !== null && <Badge variant="light" color="orange" tt="none" miw="max-content" title={t("log.not_kept", { kib: kib(kept) })}>{t("log.truncated", { kib: kib(kept) })}</Badge>}
      <Badge variant="dot" color={color} tt="none" data-testid="log-state" data-state={state}>
        {t(state === "ended" && kept !== null ? "log.over" : `log.${state}`)}
      </Badge>
    </>
  );
}

function Line({ line }: { line: LogLine }): ReactNode {
  const { t } = useTranslation();
  const isUtc = useTimeKind() === "utc";
  const clock = new Intl.DateTimeFormat(language(), { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23", timeZone: isUtc ? "UTC" : undefined }).format(new Date(line.at));
  const color = line.kind === "ERROR" ? ink("FAILED") : line.kind === "RETRY" || line.kind === "WARNING" ? ink("RETRYING") : undefined;
  const isMarked = line.to_status === null && (line.kind === "ERROR" || line.kind === "WARNING");
  return (
    <div className="log-line">
      <span className="log-dim number" title={line.at}>{clock}</span>
      <span className="log-dim">#{line.attempt}</span>
      <div className="foreign">
        {line.to_status && (
          <Text span inherit fw={700} style={{ color: ink(line.to_status) }}>
            → {t(`status.${line.to_status}`)}{line.message ? ": " : ""}
          </Text>
        )}
        {isMarked && <Text span inherit fw={700} style={{ color }}>{line.kind} </Text>}
        <Text span inherit style={{ color: line.to_status ? undefined : color }}><Styled text={line.message} /></Text>
        {isShort(line.detail) ? <span className="log-dim"> {visible(line.detail)}</span> : <pre><Styled text={line.detail} /></pre>}
      </div>
    </div>
  );
}

/** What a program wrote, in the colours that it chose. */
function Styled({ text }: { text: string }): ReactNode {
  return styled(clip(text, LONGEST)).map((piece, place) => (piece.look ? <span key={place} className={piece.look}>{piece.text}</span> : piece.text));
}

const isShort = (detail: string): boolean => detail.length < 300 && !detail.includes("\n");

function toText(line: LogLine): string {
  const what = line.to_status ? `→ ${line.to_status} ${line.message}` : line.message;
  return `${line.at} #${line.attempt} ${line.kind} ${what}${line.detail ? `\n${line.detail}` : ""}`;
}
