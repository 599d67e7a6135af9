// What the server refused or could not do, with what to do about it.

import { Alert, Button, List, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import i18next from "i18next";
import { Component, type ReactNode, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { ApiError } from "../api";
import { reword, useServerWords } from "../i18n";
import { clip, visible } from "../text";
import type { FieldError } from "../types";

const MOST_TOLD = 1000; // characters of a sentence
const LINKED_MS = 20_000; // of a notice with a link: long enough to reach it
const MOST_REWORDED = 500; // a longer one is none of ours, and may be made to be slow to compare

const KNOWN = [
  "unreachable",
  "unauthenticated",
  "permission_denied",
  "invalid_request",
  "revision_conflict",
  "illegal_transition",
  "conflict",
  "rate_limited",
  "unavailable",
  "internal",
  "task_not_found",
  "task_config_not_found",
  "worker_not_found",
  "token_not_found",
  "too_many_streams",
  "host_not_allowed",
  "no_such_route",
  "task_config_revision_not_found",
  "schedule_not_found",
  "calendar_not_found",
  "request_timeout",
  "stale_attempt",
  "idempotency_mismatch",
  "calendar_in_use",
  "body_too_large",
  "too_many_bodies",
] as const;

/** Codes that mean the same to whoever looks at a page. */
const SAME: Readonly<Record<string, (typeof KNOWN)[number]>> = {
  method_not_allowed: "no_such_route",
  unsupported_media_type: "no_such_route",
  address_too_long: "body_too_large",
  headers_too_large: "body_too_large",
};

export interface Told {
  title: string;
  detail: string;
  advice: string;
}

export function tell(error: unknown): Told {
  const problem = error instanceof ApiError ? error.problem : null;
  const code = problem?.code ?? "internal";
  const known = SAME[code] ?? KNOWN.find((one) => one === code) ?? "refused"; // by a code of a later release
  return {
    title: i18next.t(`problem.${known}.title`),
    detail: problem?.detail ?? "",
    advice: i18next.t(`problem.${known}.advice`),
  };
}

const loadMistakes = (): Promise<{ default: Readonly<Record<string, string>> }> => import("../locales/mistakes.zh-CN.json");

/** What the server says: in the language of the visitor where the catalog has the sentence, or as it is, and marked as English unless it is an aside. */
export function ServerWords({ text, isAside = false }: { text: string; isAside?: boolean }): ReactNode {
  const { t, i18n } = useTranslation();
  const words = useServerWords(loadMistakes);
  const told = useMemo(() => (text.length > MOST_REWORDED ? null : reword(words, text)), [words, text]);
  const isForeign = told === null && i18n.language !== "en" && !isAside;
  return (
    <>
      {isForeign && `${t("problem.in_english")} `}
      <span className="foreign" lang={told === null ? "en" : undefined}>{clip(visible(told ?? text), MOST_TOLD)}</span>
    </>
  );
}

/** What is wrong with each field. */
function Fields({ fields }: { fields: readonly FieldError[] }): ReactNode {
  return (
    <List size="sm">
      {fields.slice(0, 20).map((one) => (
        <List.Item key={`${one.field} ${one.problem}`}>
          <b className="foreign">{clip(visible(one.field), 100)}</b> <ServerWords text={one.problem} />
        </List.Item>
      ))}
    </List>
  );
}

/** `isBrief`: without the words of the server, which are for programs there. */
export function ProblemAlert({ error, onRetry, isBrief = false }: { error: unknown; onRetry?: () => void; isBrief?: boolean }): ReactNode {
  const { t } = useTranslation();
  if (!error) return null;
  const told = tell(error);
  const fields = error instanceof ApiError ? error.problem.errors : [];
  return (
    <Alert color="red" title={told.title} role="alert">
      {fields.length > 0 ? (
        <Fields fields={fields} />
      ) : (
        !isBrief && told.detail && <Text size="sm"><ServerWords text={told.detail} /></Text>
      )}
      {told.advice && (
        <Text size="sm" mt={4}>
          {told.advice}
        </Text>
      )}
      {onRetry && (
        <Button mt="sm" size="xs" variant="light" color="red" onClick={onRetry}>
          {t("common.try_again")}
        </Button>
      )}
    </Alert>
  );
}

interface Asked {
  error: unknown;
  refetch: () => Promise<unknown>;
}

/** Of several questions the first that failed; all that did are asked again. */
export function Problems({ of }: { of: readonly Asked[] }): ReactNode {
  const failed = of.filter((one) => one.error);
  return <ProblemAlert error={failed[0]?.error} onRetry={() => failed.forEach((one) => void one.refetch())} />;
}

/** Where a part of the console breaks, the rest of it stays, with a way to go on. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return <Broken error={this.state.error} />;
  }
}

/** Most often the server is of a newer release than the page, and its files have other names. */
function Broken({ error }: { error: unknown }): ReactNode {
  const { t } = useTranslation();
  return (
    <Alert color="red" title={t("problem.broken.title")} role="alert">
      <Text size="sm">{t("problem.broken.advice")}</Text>
      <Text size="sm" className="foreign">{clip(visible(String(error)), 500)}</Text>
      <Button mt="sm" size="xs" variant="light" color="red" onClick={() => window.location.reload()}>
        {t("common.reload")}
      </Button>
    </Alert>
  );
}

export function notifyProblem(error: unknown): void {
  const told = tell(error);
  const fields = error instanceof ApiError ? error.problem.errors : [];
  const said = fields.length > 0 ? <Fields fields={fields} /> : told.detail && <ServerWords text={told.detail} />;
  notifications.show({ color: "red", title: told.title, message: <>{said} {told.advice}</>, autoClose: 10_000 });
}

/** There was nothing to do. */
export function notifyNothing(message: string): void {
  notifications.show({ color: "gray", message });
}

export function notifyDone(message: ReactNode): void {
  notifications.show({ color: "teal", message, autoClose: typeof message === "string" ? undefined : LINKED_MS });
}
