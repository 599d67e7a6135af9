// What the server refused or could not do, with what to do about it.

import { Alert, Button, List, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import i18next from "i18next";
import { Component, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { ApiError } from "../api";
import { clip, visible } from "../text";

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
] as const;

export interface Told {
  title: string;
  detail: string;
  advice: string;
}

export function tell(error: unknown): Told {
  const problem = error instanceof ApiError ? error.problem : null;
  const code = problem?.code ?? "internal";
  const known = KNOWN.find((one) => one === code);
  return {
    title: known ? i18next.t(`problem.${known}.title`) : (problem?.title ?? String(error)),
    detail: problem ? clip(visible(problem.detail), 1000) : "",
    advice: known ? i18next.t(`problem.${known}.advice`) : "",
  };
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
        <List size="sm">
          {fields.slice(0, 20).map((one) => (
            <List.Item key={`${one.field} ${one.problem}`}>
              <b className="foreign">{clip(visible(one.field), 100)}</b>{" "}
              <span className="foreign">{clip(visible(one.problem), 500)}</span>
            </List.Item>
          ))}
        </List>
      ) : (
        !isBrief && (
          <Text size="sm" className="foreign">
            {told.detail}
          </Text>
        )
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
  const fields = error instanceof ApiError ? error.problem.errors.map((one) => `${one.field} ${one.problem}`) : [];
  const text = [fields.length > 0 ? clip(visible(fields.join("; ")), 500) : told.detail, told.advice].filter(Boolean).join(" ");
  notifications.show({ color: "red", title: told.title, message: text, autoClose: 10_000 });
}

/** There was nothing to do. */
export function notifyNothing(message: string): void {
  notifications.show({ color: "gray", message });
}

export function notifyDone(message: string): void {
  notifications.show({ color: "teal", message });
}
