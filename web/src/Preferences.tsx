import { Group, NativeSelect, useMantineColorScheme } from "@mantine/core";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { chooseTime, type TimeKind, useTimeKind } from "./format";
import { LANGUAGES, type Language, language, speak } from "./i18n";

/** Language, colours and the kind of time: of this browser, not of the account. */
export function Preferences({ withTime = false }: { withTime?: boolean }): ReactNode {
  const { t } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const time = useTimeKind();
  return (
    <Group gap={6} grow={withTime} preventGrowOverflow={false} wrap="nowrap">
      <NativeSelect
        size="xs"
        styles={{ input: { paddingInline: "8px 20px" } }}
        aria-label={t("preferences.language")}
        value={language()}
        onChange={(event) => void speak(event.currentTarget.value as Language)}
        data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
      />
      <NativeSelect
        size="xs"
        styles={{ input: { paddingInline: "8px 20px" } }}
        aria-label={t("preferences.colors")}
        value={colorScheme}
        onChange={(event) => setColorScheme(event.currentTarget.value as "light" | "dark" | "auto")}
        data={(["auto", "light", "dark"] as const).map((value) => ({ value, label: t(`preferences.${value}`) }))}
      />
      {withTime && (
        <NativeSelect
          size="xs"
        styles={{ input: { paddingInline: "8px 20px" } }}
          aria-label={t("preferences.time")}
          value={time}
          onChange={(event) => chooseTime(event.currentTarget.value as TimeKind)}
          data={(["local", "utc", "relative"] as const).map((value) => ({ value, label: t(`preferences.${value}`) }))}
        />
      )}
    </Group>
  );
}
