// What is typed here, or shown this once, is not lost by a slip: whoever would leave it is asked before.

import { useCallback, useLayoutEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { useConfirm } from "./components/confirm";
import { guardPlace } from "./router";

interface Unsaved {
  leave: (act: () => void) => void; // do it, after a question where something would be lost
  release: () => void; // it is kept elsewhere now: nothing would be
}

export function useUnsaved(isChanged: boolean, what: "typed" | "shown" = "typed"): Unsaved {
  const { t } = useTranslation();
  const confirm = useConfirm();
  const release = useRef(() => {});
  const ask = useCallback(() => confirm({ title: t(`unsaved.${what}`), text: t("unsaved.text"), action: t("unsaved.discard") }), [confirm, t, what]);
  useLayoutEffect(() => {
    if (!isChanged) return;
    release.current = guardPlace(ask);
    return () => release.current();
  }, [isChanged, ask]);
  const leave = async (act: () => void): Promise<void> => {
    if (isChanged && !(await ask())) return;
    release.current();
    act();
  };
  return { leave: (act) => void leave(act), release: () => release.current() };
}
