// What makes tasks must not make them twice: neither by a second click, nor by a second try of what had arrived though no
// answer did.

import { useRef, useState } from "react";

/** Whether it goes on, and how to begin it: while it does a second one is let be. `wish` is what is asked for; asked again after a failure, it goes under the same key. */
export function useOnce(): [boolean, (wish: string, act: (key: string) => Promise<void>) => Promise<void>] {
  const [isBusy, setBusy] = useState(false);
  const isOn = useRef(false); // a second click comes before the page is drawn anew
  const failed = useRef({ wish: "", key: "" });
  const run = async (wish: string, act: (key: string) => Promise<void>): Promise<void> => {
    if (isOn.current) return;
    isOn.current = true;
    setBusy(true);
    const key = failed.current.wish === wish && failed.current.key ? failed.current.key : newKey();
    failed.current = { wish, key };
    try {
      await act(key);
      failed.current = { wish: "", key: "" };
    } finally {
      isOn.current = false;
      setBusy(false);
    }
  };
  return [isBusy, run];
}

/** Not by `crypto.randomUUID`, which browsers give to pages over HTTPS and of this machine alone. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
