import { List, Stack, Text } from "@mantine/core";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Relative, Time } from "../format";
import { language } from "../i18n";
import type { SchedulePreview } from "../types";

/** A schedule in words, and when it fires next, on the clock of its own zone. */
export function SchedulePreviewBox({ preview, zone }: { preview: SchedulePreview; zone: string }): ReactNode {
  const { t } = useTranslation();
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
            {preview.upcoming.map((at) => (
              <List.Item key={at}>
                <Time at={at} zone={zone} /> <Text span size="xs" c="dimmed">(<Relative at={at} />)</Text>
              </List.Item>
            ))}
          </List>
        </>
      )}
      {preview.effects.map((one) => (
        <Text key={`${one.fire_at} ${one.effect}`} size="xs" c="dimmed">
          <Time at={one.fire_at} zone={zone} />: {one.detail}
        </Text>
      ))}
    </Stack>
  );
}
