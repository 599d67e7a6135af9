import { List, Stack } from "@mantine/core";
import { type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { count, Time } from "../format";
import { visible } from "../text";
import type { Calendar } from "../types";
import { Field } from "./bits";
import { sayWeekday } from "./Year";

const A_WEEK = 7;
const SECONDS = /:00(\.0+)?$/;
const sayTime = (time: string): string => visible(time.replace(SECONDS, ""));

/** What a calendar covers beside single days, which a year alone does not say. */
export function CalendarParts({ calendar: { business_days: business, windows, periods } }: { calendar: Calendar }): ReactNode {
  const { t } = useTranslation();
  if (!business && windows.length + periods.length === 0) return null;
  return (
    <Stack gap="sm" data-testid="parts">
      {business && (
        <Field label={t("calendars.week")}>
          <Weekdays of={business.weekdays} /> · {t("calendars.but", { holidays: count(business.holidays.length), workdays: count(business.workdays.length) })}
        </Field>
      )}
      {windows.length > 0 && (
        <Field label={t("calendars.windows")}>
          <List size="sm">
            {windows.map((one) => (
              <List.Item key={JSON.stringify(one)}><Weekdays of={one.weekdays} /> · {one.begin === one.end ? t("calendars.whole_day") : `${sayTime(one.begin)}–${sayTime(one.end)}`}</List.Item>
            ))}
          </List>
        </Field>
      )}
      {periods.length > 0 && (
        <Field label={t("calendars.periods")}>
          <List size="sm">
            {periods.map((one) => <List.Item key={JSON.stringify(one)}><Time at={one.begin} /> – <Time at={one.end} /></List.Item>)}
          </List>
        </Field>
      )}
    </Stack>
  );
}

function Weekdays({ of }: { of: readonly number[] }): ReactNode {
  const { t } = useTranslation();
  return of.length === A_WEEK ? t("calendars.every_day") : of.map((one) => sayWeekday(one, "short")).join(" ");
}
