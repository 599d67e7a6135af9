import { Button, Group, Modal, Stack, Textarea } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { part, post } from "../api";
import { parse, writeJson } from "../json";
import { useOnce } from "../once";
import { go } from "../router";
import { oneLine } from "../text";
import type { Task, TaskConfig } from "../types";
import { useUnsaved } from "../unsaved";
import { CODE } from "./code";
import { ProblemAlert } from "./problem";

export function RunNow({ config, onClose }: { config: TaskConfig; onClose: () => void }): ReactNode {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [given] = useState(() => writeJson(config.payload ?? {}, 2));
  const [text, setText] = useState(given);
  const [error, setError] = useState<unknown>(null);
  const payload = parse(text);
  const isChanged = text !== given;
  const { leave, release } = useUnsaved(isChanged);
  const close = (): void => leave(onClose);
  const [isBusy, once] = useOnce();
  const run = (): Promise<void> =>
    once(text, async (key) => {
      const task = await post<Task>(`/task-configs/${part(config.type)}:trigger`, { payload: payload.value }, key);
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      release();
      onClose();
      go(`/tasks/${task.id}`);
    }).catch(setError);
  return (
    <Modal opened onClose={close} closeOnEscape={!isChanged} closeOnClickOutside={!isChanged} title={`${t("configs.run_now")}: ${oneLine(config.type, 60)}`} size="lg" closeButtonProps={{ "aria-label": t("common.close") }}>
      <Stack>
        <Textarea label={t("task.input")} description={t("configs.input_note")} autosize minRows={6} maxRows={20} value={text} onChange={(event) => setText(event.currentTarget.value)} error={payload.problem} styles={CODE} data-autofocus />
        <ProblemAlert error={error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{t("common.back")}</Button>
          <Button disabled={payload.problem !== null} loading={isBusy} onClick={() => void run()}>{t("configs.run_now")}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
