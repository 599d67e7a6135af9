import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { Search } from "lucide-react";
import { type ReactNode, useState } from "react";

interface Props {
  label: string;
  hint?: string;
  value: string;
  onChange: (text: string) => void;
  toValue?: (text: string) => string; // what the value becomes of a text, where that is not the text itself
  icon?: boolean;
}

/** Text that is taken over when the typing rests, or goes on elsewhere. */
export function Typed({ label, hint, value, onChange, toValue = (typed) => typed, icon }: Props): ReactNode {
  const [text, setText] = useState(value);
  const [told, setTold] = useState(value);
  const tell = useDebouncedCallback((next: string) => {
    setTold(toValue(next));
    onChange(next);
  }, 350);
  if (value !== told) {
    tell.cancel(); // what is being typed changed a filter that is gone
    setTold(value);
    setText(value);
  }
  return (
    <TextInput
      label={label}
      placeholder={hint}
      value={text}
      maxLength={200}
      leftSection={icon ? <Search size={14} /> : undefined}
      data-search={icon}
      onBlur={() => tell.flush()}
      onChange={(event) => {
        setText(event.currentTarget.value);
        tell(event.currentTarget.value);
      }}
    />
  );
}
