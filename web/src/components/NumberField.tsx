// A number within bounds. What is typed stays as it is: out of bounds it is told at the field, and its form not sent.

import { NumberInput } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";

interface Props {
  label: string;
  placeholder?: string;
  min?: number;
  max?: number;
  step?: number;
  allowDecimal?: boolean;
  required?: boolean;
  withAsterisk?: boolean;
  size?: string;
  w?: number;
  value: number | string;
  onChange: (value: number | string) => void;
  error?: ReactNode;
}

export function NumberField({ error, ...rest }: Props): ReactNode {
  const { t } = useTranslation();
  const { min = -Infinity, max = Infinity, value } = rest;
  const input = useRef<HTMLInputElement>(null);
  const isLow = value !== "" && Number(value) < min;
  const isHigh = value !== "" && Number(value) > max;
  const fault = isLow ? t("common.at_least", { number: min }) : isHigh ? t("common.at_most", { number: max }) : "";
  useEffect(() => input.current?.setCustomValidity(fault), [fault]);
  return <NumberInput ref={input} clampBehavior="none" error={fault || error} {...rest} />;
}
