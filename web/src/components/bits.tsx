import {
  ActionIcon,
  Anchor,
  Badge,
  Button,
  Code,
  Group,
  Loader,
  Paper,
  Stack,
  Text,
  Title,
  Tooltip,
} from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { Check, Copy } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { copy } from "../copy";
import { count, Elapsed } from "../format";
import { isText, writeJson } from "../json";
import { Link } from "../router";
import { clip, oneLine, save, visible } from "../text";
import type { Task, TaskStatus } from "../types";
import { notifyNothing } from "./problem";

const COPIED_MS = 1_000; // it says so for that long

/** Seen on either ground, and told apart: what waits is pale, what runs is deep. */
export const COLORS: Record<TaskStatus, string> = {
  PENDING: "blue.3",
  BLOCKED: "grape.6",
  PROCESSING: "blue.7",
  RETRYING: "yellow.6",
  SUCCESS: "teal.6",
  FAILED: "red.6",
  TIMEOUT: "orange.6",
  CANCELLED: "gray.6",
};

/** The colour of a state as CSS has it. */
export const paint = (status: TaskStatus): string => `var(--mantine-color-${COLORS[status].replace(".", "-")})`;

/** The same for words, which must be read on either ground. */
export function ink(status: TaskStatus): string {
  const name = hue(status);
  return `light-dark(color-mix(in srgb, var(--mantine-color-${name}-9), black 30%), var(--mantine-color-${name}-4))`;
}

/** The name of its colour alone. */
export const hue = (status: TaskStatus): string => COLORS[status].split(".")[0] ?? "gray";

/** What a colour stands for, below a chart. */
export function Key({ color, children }: { color: string; children: ReactNode }): ReactNode {
  return (
    <Badge variant="dot" color={color} tt="none" bd="none" bg="transparent">
      {children}
    </Badge>
  );
}

export function StatusBadge({ status, children }: { status: TaskStatus; children?: ReactNode }): ReactNode {
  const { t } = useTranslation();
  return (
    <Badge variant="dot" color={COLORS[status]} tt="none" fw={600} title={status} miw="max-content">
      {children ?? t(`status.${status}`)}
    </Badge>
  );
}

export function PageHead({ title, children, note }: { title: ReactNode; children?: ReactNode; note?: ReactNode }): ReactNode {
  return (
    <Group justify="space-between" align="flex-start" wrap="wrap">
      <Stack gap={2} flex="1 1 10rem" miw={0}>
        <Title order={1} size="h2">
          {title}
        </Title>
        {note && (
          <Text size="sm" c="dimmed" component="div">
            {note}
          </Text>
        )}
      </Stack>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  );
}

export function Panel({ title, children, aside }: { title?: ReactNode; children: ReactNode; aside?: ReactNode }): ReactNode {
  return (
    <Paper withBorder p="md">
      {(title || aside) && (
        <Group justify="space-between" mb="sm" gap="xs">
          <Title order={2} size="h5">
            {title}
          </Title>
          {aside}
        </Group>
      )}
      {children}
    </Paper>
  );
}

/** Nothing is there yet: what would be, and exactly what to type to see it. */
export function Empty({ title, text, command, children }: { title: string; text?: string; command?: string; children?: ReactNode }): ReactNode {
  return (
    <Stack align="center" gap="xs" py="xl" data-testid="empty">
      <Text fw={600}>{title}</Text>
      {text && (
        <Text size="sm" c="dimmed" ta="center" maw={560}>
          {text}
        </Text>
      )}
      {command && <Command text={command} />}
      {children}
    </Stack>
  );
}

export function Command({ text }: { text: string }): ReactNode {
  return (
    <Group gap={4} wrap="nowrap" maw="100%">
      <Code block style={{ whiteSpace: "pre-wrap" }}>
        {text}
      </Code>
      <CopyIcon text={text} />
    </Group>
  );
}

export function CopyIcon({ text }: { text: string }): ReactNode {
  const { t } = useTranslation();
  const [isCopied, setCopied] = useState(false);
  const fade = useTimeout(() => setCopied(false), COPIED_MS);
  const tell = (): void => {
    setCopied(true);
    fade.start();
  };
  return (
    <Tooltip label={isCopied ? t("common.copied") : t("common.copy")}>
      <ActionIcon variant="subtle" color={isCopied ? "teal" : "gray"} onClick={() => void copy(text).then(tell, () => notifyNothing(t("common.not_copied")))} aria-label={t("common.copy")}>
        {isCopied ? <Check size={16} /> : <Copy size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}

export function Loading(): ReactNode {
  const { t } = useTranslation();
  return (
    <Group justify="center" py="xl">
      <Loader size="sm" role="status" aria-label={t("common.loading")} />
    </Group>
  );
}

interface Asked {
  isPending: boolean;
  data: unknown;
}

/** What was asked for, once all of it is known: that there is none of it is said only then. */
export function Known({ of, children }: { of: readonly Asked[]; children: ReactNode }): ReactNode {
  const missing = of.filter((one) => one.data === undefined);
  if (missing.length === 0) return children;
  return missing.some((one) => one.isPending) ? <Loading /> : <Text c="dimmed" ta="center" py="md">–</Text>;
}

const MOST_SHOWN = 20_000;

/** A JSON value as text; much of it is shown when it is asked for. */
export function JsonView({ value, name }: { value: unknown; name: string }): ReactNode {
  const text = useMemo(() => (isText(value) ? value : writeJson(value, 2)), [value]);
  return <TextView text={isText(value) ? JSON.stringify(value) : text} whole={text} name={`${name}.json`} />;
}

export function TextView({ text, name, whole }: { text: string; name: string; whole?: string }): ReactNode {
  const { t } = useTranslation();
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > MOST_SHOWN;
  const shown = useMemo(() => visible(isWhole ? clip(text, 1_000_000) : clip(text, MOST_SHOWN)), [text, isWhole]);
  return (
    <Stack gap={4}>
      <Code block className="foreign" style={{ whiteSpace: "pre-wrap", maxHeight: "24rem", overflow: "auto" }} tabIndex={0}>
        {shown}
      </Code>
      {isLong && (
        <Group gap="xs">
          <Text size="xs" c="dimmed">
            {t("common.characters", { number: count(text.length) })}
          </Text>
          {!isWhole && (
            <Button size="compact-xs" variant="subtle" onClick={() => setWhole(true)}>
              {t("common.show_all")}
            </Button>
          )}
          <Button size="compact-xs" variant="subtle" onClick={() => save(name, whole ?? text)}>
            {t("common.download")}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

/** Words of somebody else, in one line. */
export function Foreign({ text, most = 120 }: { text: string; most?: number }): ReactNode {
  const shown = oneLine(text, most);
  return (
    <span className="foreign" title={shown.endsWith("…") ? oneLine(text, 1000) : undefined}>
      {shown}
    </span>
  );
}

export function TextLink({ to, children, ...rest }: { to: string; children: ReactNode; className?: string; title?: string }): ReactNode {
  return (
    <Anchor component={Link} to={to} size="sm" {...rest}>
      {children}
    </Anchor>
  );
}

/** Whether its error says more than its state, which that of a cancelled task does only by a message. */
export function isTelling(task: Task): task is Task & { error: NonNullable<Task["error"]> } {
  return task.error !== null && (task.status !== "CANCELLED" || task.error.message !== "");
}

/** How long the last attempt of a task took, or has taken so far; nothing while it waits for one. */
export function TaskDuration({ task }: { task: Task }): ReactNode {
  if (task.status !== "PROCESSING" && task.completed_at === null) return "–";
  return <Elapsed from={task.started_at} to={task.completed_at} />;
}

export function Field({ label, children }: { label: string; children: ReactNode }): ReactNode {
  return (
    <Stack gap={0} miw={110}>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text size="sm" component="div">
        {children}
      </Text>
    </Stack>
  );
}
