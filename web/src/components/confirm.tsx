// Asked before anything that cannot be taken back.

import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { createContext, type ReactNode, use, useCallback, useState } from "react";
import { useTranslation } from "react-i18next";

const ABOVE_DIALOGS = 300; // it is asked out of some

export interface Question {
  title: string;
  text: ReactNode;
  action: string; // what the button says
}

interface Asked extends Question {
  answer: (yes: boolean) => void;
}

const Context = createContext<(question: Question) => Promise<boolean>>(() => Promise.resolve(false));
export const useConfirm = (): ((question: Question) => Promise<boolean>) => use(Context);

export function ConfirmProvider({ children }: { children: ReactNode }): ReactNode {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<Asked | null>(null);
  const ask = useCallback(
    (question: Question) => new Promise<boolean>((resolve) => setAsked({ ...question, answer: resolve })),
    [],
  );
  const close = (yes: boolean): void => {
    asked?.answer(yes);
    setAsked(null);
  };
  return (
    <Context value={ask}>
      {children}
      <Modal opened={asked !== null} onClose={() => close(false)} zIndex={ABOVE_DIALOGS} title={asked?.title} centered closeButtonProps={{ "aria-label": t("common.close") }}>
        <Stack>
          <Text component="div" size="sm">
            {asked?.text}
          </Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={() => close(false)} data-autofocus>
              {t("common.back")}
            </Button>
            <Button color="red" onClick={() => close(true)}>
              {asked?.action}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </Context>
  );
}
