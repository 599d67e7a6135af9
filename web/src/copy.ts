// Into the clipboard, also where the page came over plain HTTP from another machine: browsers give `navigator.clipboard` to
// pages over HTTPS and of this machine alone.

export async function copy(text: string): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) await clipboard.writeText(text);
  else if (!copyBySelection(text)) throw new Error("the browser does not let it be copied");
}

function copyBySelection(text: string): boolean {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.style.position = "fixed"; // so that nothing scrolls to it
  field.style.opacity = "0";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return isCopied;
}
