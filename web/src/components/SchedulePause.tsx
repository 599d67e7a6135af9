import { Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { Pause, Play } from "lucide-react";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { part, post } from "../api";
import { useSession } from "../session";
import type { TaskConfig } from "../types";
import { Foreign } from "./bits";
import { notifyDone, notifyProblem } from "./problem";

const MOST_NOTE = 500; // the server takes no longer one

/** Lets the schedule alone rest: tasks are accepted, and “Run now” works, meanwhile. */
export function SchedulePause({ config }: { config: TaskConfig }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [note, setNote] = useState("");
  const isPaused = config.schedule?.paused === true;
  const why = String(config.schedule?.pause_note ?? "");
  const act = async (action: "pause" | "resume"): Promise<void> => {
    try {
      await post(`/task-configs/${part(config.type)}/schedule:${action}`, action === "pause" ? { note } : {});
      notifyDone(t(`configs.schedule_${action}d`));
      setOpen(false);
      setNote("");
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["configs"] });
  };
  const pause = (event: FormEvent): void => {
    event.preventDefault();
    void act("pause");
  };
  return (
    <Group gap="xs" mb="xs">
      {isPaused && why && <Text size="sm"><Foreign text={why} most={500} /></Text>}
      {can("operator") && isPaused && <Button size="compact-xs" variant="default" leftSection={<Play size={12} />} onClick={() => void act("resume")}>{t("configs.schedule_resume")}</Button>}
      {can("operator") && !isPaused && (
        <Popover opened={isOpen} onChange={setOpen} withArrow trapFocus width={300} position="bottom-start">
          <Popover.Target>
            <Button size="compact-xs" variant="default" leftSection={<Pause size={12} />} onClick={() => setOpen(!isOpen)}>{t("configs.schedule_pause")}</Button>
          </Popover.Target>
          <Popover.Dropdown>
            <form onSubmit={pause}>
              <Stack gap="xs">
                <TextInput size="xs" label={t("configs.pause_note")} description={t("configs.pause_note_text")} maxLength={MOST_NOTE} value={note} onChange={(event) => setNote(event.currentTarget.value)} />
                <Button size="xs" type="submit">{t("common.apply")}</Button>
              </Stack>
            </form>
          </Popover.Dropdown>
        </Popover>
      )}
    </Group>
  );
}
