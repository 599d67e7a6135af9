// What an executor is told: by fields that have names where it is one of ours, and as JSON for everything else that it can.

import { Group, NativeSelect, SegmentedControl, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { isText, parse, writeJson } from "../json";
import { CODE } from "./code";
import { NumberField } from "./NumberField";

const METHODS = ["POST", "PUT", "PATCH", "DELETE", "GET"];
const OWN_SERVICE = "rota.executor.v1.Executor";

/** Beside each other fields begin at one height, however long their notes are. */
const NOTE_LAST = ["label" as const, "input" as const, "error" as const, "description" as const];

type Keys = Record<string, unknown>;
interface Fields {
  keys: Keys;
  put: (name: string, value: unknown, dropped?: string) => void;
  faults: (field: string) => ReactNode;
}

interface Props {
  kind: string;
  text: string; // JSON
  onChange: (text: string) => void;
  faults: (field: string) => ReactNode;
}

export function ExecutorFields({ kind, text, onChange, faults }: Props): ReactNode {
  const { t } = useTranslation();
  const [isExpert, setExpert] = useState(false);
  const { value, problem } = parse(text);
  const keys = typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Keys) : null;
  const known = KNOWN.get(kind);
  const put: Fields["put"] = (name, given, dropped) => {
    const changed = { ...keys, [name]: given === "" ? undefined : given }; // what is undefined is not written
    if (dropped) delete changed[dropped];
    onChange(writeJson(changed, 2));
  };
  const asJson = <Textarea label={t("configs.executor_keys")} autosize minRows={3} styles={CODE} value={text} onChange={(event) => onChange(event.currentTarget.value)} error={problem ?? faults("executor")} />;
  if (known === undefined) return asJson;
  const isForm = !isExpert && keys !== null;
  return (
    <Stack gap="sm">
      <SegmentedControl
        size="xs"
        aria-label={t("configs.executor_keys")}
        data={[{ value: "form", label: t("configs.as_form"), disabled: keys === null }, { value: "json", label: "JSON" }]}
        value={isForm ? "form" : "json"}
        onChange={(chosen) => setExpert(chosen === "json")}
      />
      {isForm ? <known.Fields keys={keys} put={put} faults={faults} /> : asJson}
      {isForm && <Others keys={keys} known={known.names} />}
    </Stack>
  );
}

/** The fields of each of our executors, and the keys that they stand for. */
const KNOWN = new Map<string, { Fields: (fields: Fields) => ReactNode; names: readonly string[] }>([
  ["local", { Fields: LocalFields, names: ["function"] }],
  ["http", { Fields: HttpFields, names: ["url", "method", "headers", "secret", "target", "response_timeout_seconds", "concurrency", "deferred"] }],
  ["grpc", { Fields: GrpcFields, names: ["address", "service", "method", "metadata", "tls", "streaming"] }],
]);

function LocalFields({ keys, put, faults }: Fields): ReactNode {
  const { t } = useTranslation();
  return <TextInput label={t("executor.function")} description={t("executor.function_note")} styles={CODE} value={spell(keys.function)} onChange={(event) => put("function", event.currentTarget.value.trim())} error={faults("executor.function")} placeholder="shop.jobs:send_email" />;
}

function HttpFields({ keys, put, faults }: Fields): ReactNode {
  const { t } = useTranslation();
  const method = spell(keys.method) || "POST";
  return (
    <>
      <Group align="flex-start" wrap="nowrap">
        <NativeSelect label={t("executor.method")} w={110} data={[...new Set([...METHODS, method])]} value={method} onChange={(event) => put("method", event.currentTarget.value)} error={faults("executor.method")} />
        <TextInput flex={1} label={t("executor.url")} required styles={CODE} value={spell(keys.url)} onChange={(event) => put("url", event.currentTarget.value)} error={faults("executor.url")} placeholder="https://shop.example.com/api/refunds" />
      </Group>
      <Pairs label={t("executor.headers")} note={t("executor.headers_note")} hint="X-Team: orders" value={keys.headers} onChange={(value) => put("headers", value)} error={faults("executor.headers")} />
      <Group grow align="flex-start">
        <TextInput label={t("executor.secret")} inputWrapperOrder={NOTE_LAST} description={t("executor.secret_note")} value={spell(keys.secret)} onChange={(event) => put("secret", event.currentTarget.value)} error={faults("executor.secret")} placeholder="default" />
        <TextInput label={t("executor.target")} inputWrapperOrder={NOTE_LAST} description={t("executor.target_note")} value={spell(keys.target)} onChange={(event) => put("target", event.currentTarget.value)} error={faults("executor.target")} />
      </Group>
      <Group grow align="flex-start">
        <Amount label={t("executor.response_timeout")} placeholder={t("configs.no_limit")} min={0} value={keys.response_timeout_seconds} onChange={(value) => put("response_timeout_seconds", value)} error={faults("executor.response_timeout_seconds")} />
        <Amount label={t("executor.concurrency")} placeholder={t("executor.as_settings")} min={1} allowDecimal={false} value={keys.concurrency} onChange={(value) => put("concurrency", value)} error={faults("executor.concurrency")} />
      </Group>
      <Switch label={t("executor.deferred")} checked={keys.deferred !== false} onChange={(event) => put("deferred", event.currentTarget.checked ? undefined : false)} />
    </>
  );
}

const isOwnService = (name: unknown): boolean => !name || name === OWN_SERVICE;

function GrpcFields({ keys, put, faults }: Fields): ReactNode {
  const { t } = useTranslation();
  const isOwn = isOwnService(keys.service);
  return (
    <>
      <TextInput label={t("executor.address")} required styles={CODE} value={spell(keys.address)} onChange={(event) => put("address", event.currentTarget.value)} error={faults("executor.address")} placeholder="shop.internal:50051" />
      <Group grow align="flex-start">
        <TextInput label={t("executor.service")} styles={CODE} value={spell(keys.service)} onChange={(event) => put("service", event.currentTarget.value, isOwnService(event.currentTarget.value) ? "method" : "streaming")} error={faults("executor.service")} placeholder={OWN_SERVICE} />
        {!isOwn && <TextInput label={t("executor.method")} styles={CODE} value={spell(keys.method)} onChange={(event) => put("method", event.currentTarget.value)} error={faults("executor.method")} placeholder="Place" />}
      </Group>
      <Pairs label={t("executor.metadata")} note={t("executor.metadata_note")} hint="x-team: orders" value={keys.metadata} onChange={(value) => put("metadata", value)} error={faults("executor.metadata")} />
      <TextInput label={t("executor.tls")} description={t("executor.tls_note")} value={spell(keys.tls)} onChange={(event) => put("tls", event.currentTarget.value)} error={faults("executor.tls")} placeholder="default" />
      {isOwn && <Switch label={t("executor.streaming")} checked={keys.streaming === true} onChange={(event) => put("streaming", event.currentTarget.checked || undefined)} />}
    </>
  );
}

/** What else is set, and can be changed as JSON alone. */
function Others({ keys, known }: { keys: Keys; known: readonly string[] }): ReactNode {
  const { t } = useTranslation();
  const others = Object.keys(keys).filter((name) => !known.includes(name));
  if (others.length === 0) return null;
  return <Text size="xs" c="dimmed" className="foreign">{t("executor.others", { names: others.join(", ") })}</Text>;
}

interface AmountProps {
  label: string;
  placeholder: string;
  min: number;
  allowDecimal?: boolean;
  value: unknown;
  onChange: (value: number | undefined) => void;
  error: ReactNode;
}

/** A number that is kept as it is typed: "0." is on its way to 0.5. */
function Amount({ value, onChange, ...rest }: AmountProps): ReactNode {
  const [typed, setTyped] = useState<number | string>(typeof value === "number" ? value : "");
  const change = (next: number | string): void => {
    setTyped(next);
    onChange(next === "" || Number.isNaN(Number(next)) ? undefined : Number(next));
  };
  return <NumberField {...rest} value={typed} onChange={change} />;
}

interface PairsProps {
  label: string;
  note: string;
  hint: string;
  value: unknown;
  onChange: (value: Record<string, string> | undefined) => void;
  error: ReactNode;
}

/** Names and values, one pair in a line; a line without a colon is a name alone, which the server may refuse. */
function Pairs({ label, note, hint, value, onChange, error }: PairsProps): ReactNode {
  const [text, setText] = useState(() => Object.entries((value ?? {}) as object).map(([name, one]) => `${name}: ${spell(one)}`).join("\n"));
  const change = (next: string): void => {
    setText(next);
    const pairs = next.split("\n").map((line) => {
      const [name = "", ...rest] = line.split(":");
      return [name.trim(), rest.join(":").trim()] as const;
    }).filter(([name]) => name);
    onChange(pairs.length > 0 ? Object.fromEntries(pairs) : undefined);
  };
  return <Textarea label={label} description={note} placeholder={hint} autosize minRows={2} styles={CODE} value={text} onChange={(event) => change(event.currentTarget.value)} error={error} />;
}

const spell = (value: unknown): string => (value === undefined || value === null ? "" : isText(value) ? value : writeJson(value));
