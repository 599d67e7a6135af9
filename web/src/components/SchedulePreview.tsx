import { List, Stack, Text } from "@mantine/core";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Relative, Time } from "../format";
import { language } from "../i18n";
import type { CalendarEffect, SchedulePreview } from "../types";
import { visible } from "../text";
import { ServerWords } from "./problem";

const SOON_MS = 1_000; // what has just fired is still listed
const LONGEST_MS = 60_000;

/** When a list of next fires is out of date: once the first of them has come. */
export function untilNext(preview: SchedulePreview | undefined): number {
  const next = preview?.upcoming[0];
  return next === undefined ? LONGEST_MS : Math.min(Math.max(Date.parse(next) - Date.now(), 0) + SOON_MS, LONGEST_MS);
}

/** A schedule in words, and when it fires next, on the clock of its own zone. */
export function SchedulePreviewBox({ preview, zone }: { preview: SchedulePreview; zone: string }): ReactNode {
  const { t } = useTranslation();
  const isSkipped = (one: CalendarEffect): boolean => one.effect === "clocks_skipped"; // no target
  const effects = new Map(preview.effects.filter((one) => !isSkipped(one)).map((one) => [one.fire_at, one]));
  const last = preview.upcoming.at(-1) ?? "";
  const skipped = preview.effects.filter((one) => isSkipped(one) && Date.parse(one.fire_at) > Date.now() && one.fire_at <= last);
  const targets = preview.upcoming.map((at) => ({ at, effect: effects.get(at), isTarget: true }));
  const rows = [...skipped.map((effect) => ({ at: effect.fire_at, effect, isTarget: false })), ...targets].sort((one, other) => one.at.localeCompare(other.at));
  return (
    <Stack gap="xs" data-testid="preview">
      <Text size="sm" fw={600}>{language() === "zh-CN" ? preview.in_chinese : preview.in_english}</Text>
      {(preview.state === "paused" || preview.state === "disabled") && (
        <Text size="sm" c="orange">{t(`configs.state_${preview.state}`)}</Text>
      )}
      {preview.upcoming.length === 0 ? (
        <Text size="sm" c="dimmed">{t("configs.never")}</Text>
      ) : (
        <>
          <Text size="xs" c="dimmed">{t("configs.upcoming", { zone })}</Text>
          <List size="sm" spacing={2}>
            {rows.map(({ at, effect, isTarget }) => (
              <List.Item key={`${at} ${isTarget}`}>
                <Time at={at} zone={zone} /> {isTarget && <Text span size="xs" c="dimmed">(<Relative at={at} />)</Text>}
                <Effect effect={effect} zone={zone} />
              </List.Item>
            ))}
          </List>
        </>
      )}
    </Stack>
  );
}

/** What calendars, or clocks that are changed, make of a time: that it does not fire, or in place of which other one it does. */
function Effect({ effect, zone }: { effect: CalendarEffect | undefined; zone: string }): ReactNode {
  const { t } = useTranslation();
  if (effect === undefined) return null;
  if (effect.effect.startsWith("clocks_")) return <Text span size="xs" c="dimmed">{" · "}{t(`configs.effects.${effect.effect}`, { times: visible(effect.detail) })}</Text>;
  return (
    <Text span size="xs" c="dimmed">
      {" · "}{t(`configs.effects.${effect.effect}`)}{effect.moved_from !== null && <> <Time at={effect.moved_from} zone={zone} /></>}
      {effect.detail && <>{": "}<ServerWords text={effect.detail} isAside /></>}
    </Text>
  );
}
