import { Alert, Badge, Button, Group, Modal, NativeSelect, Paper, Stack, Table, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { get, post, remove } from "../api";
import { Command, Empty, Foreign, Known, PageHead } from "../components/bits";
import { useConfirm } from "../components/confirm";
import { notifyDone, notifyProblem, ProblemAlert } from "../components/problem";
import { Time } from "../format";
import { useOnce } from "../once";
import { useSession } from "../session";
import type { NewToken, Page, Role, Token } from "../types";
import { useUnsaved } from "../unsaved";

const LIVES = { "1d": 86_400, "30d": 2_592_000, "90d": 7_776_000, "365d": 31_536_000, never: null } as const;

export default function Tokens(): ReactNode {
  const { t } = useTranslation();
  const [isMaking, setMaking] = useState(false);
  const tokens = useInfiniteQuery({
    queryKey: ["tokens"],
    queryFn: ({ pageParam, signal }) => get<Page<Token>>("/tokens", { limit: 200, cursor: pageParam }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
  });
  const items = tokens.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageHead title={t("nav.tokens")} note={t("tokens.about")}>
        <Button size="xs" leftSection={<Plus size={14} />} onClick={() => setMaking(true)}>{t("tokens.new")}</Button>
      </PageHead>
      <ProblemAlert error={tokens.error} onRetry={() => void tokens.refetch()} />
      <Paper withBorder>
        <Known of={[tokens]}>
          {items.length === 0 ? (
            <Empty title={t("tokens.empty")} command="rota token create NAME --role operator" />
          ) : (
            <Table.ScrollContainer minWidth={640}>
              <Table data-testid="tokens" className="cards">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{t("tokens.name")}</Table.Th>
                    <Table.Th>{t("tokens.role")}</Table.Th>
                    <Table.Th>{t("tasks.created")}</Table.Th>
                    <Table.Th>{t("tokens.expires")}</Table.Th>
                    <Table.Th>{t("tokens.last_used")}</Table.Th>
                    <Table.Th />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>{items.map((token) => <Row key={token.id} token={token} />)}</Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </Known>
      </Paper>
      {tokens.hasNextPage && (
        <Group justify="center"><Button variant="default" size="xs" onClick={() => void tokens.fetchNextPage()}>{t("common.more")}</Button></Group>
      )}
      {isMaking && <Make onClose={() => setMaking(false)} />}
    </Stack>
  );
}

function Row({ token }: { token: Token }): ReactNode {
  const { t } = useTranslation();
  const { session } = useSession();
  const confirm = useConfirm();
  const queries = useQueryClient();
  const isOver = token.revoked_at !== null || (token.expires_at !== null && new Date(token.expires_at).getTime() < Date.now());
  const isOwn = token.id === session?.token_id;
  const revoke = async (): Promise<void> => {
    const text = t(isOwn ? "tokens.revoke_own_text" : "tokens.revoke_text");
    if (!(await confirm({ title: t("tokens.revoke_title"), text, action: t("tokens.revoke") }))) return;
    try {
      await remove(`/tokens/${token.id}`);
      notifyDone(t("tokens.revoked"));
    } catch (error) {
      notifyProblem(error);
    }
    void queries.invalidateQueries({ queryKey: ["tokens"] });
  };
  return (
    <Table.Tr c={isOver ? "dimmed" : undefined}>
      <Table.Td>
        <Group gap="xs"><Foreign text={token.name} />{isOwn && <Badge size="sm" variant="light" tt="none">{t("tokens.yours")}</Badge>}</Group>
        <span className="mono log-dim">{token.id}</span>
      </Table.Td>
      <Table.Td data-label={t("tokens.role")}>{t(`role.${token.role}`)}</Table.Td>
      <Table.Td data-label={t("tasks.created")}><Time at={token.created_at} /></Table.Td>
      <Table.Td data-label={t("tokens.expires")}>{token.revoked_at ? <Badge color="gray" variant="light" tt="none">{t("tokens.is_revoked")}</Badge> : token.expires_at ? <Time at={token.expires_at} /> : t("tokens.never")}</Table.Td>
      <Table.Td data-label={t("tokens.last_used")}><Time at={token.last_used_at} /></Table.Td>
      <Table.Td ta="right">{!isOver && <Button size="compact-xs" color="red" variant="light" onClick={() => void revoke()}>{t("tokens.revoke")}</Button>}</Table.Td>
    </Table.Tr>
  );
}

function Make({ onClose }: { onClose: () => void }): ReactNode {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [life, setLife] = useState<keyof typeof LIVES>("90d");
  const [made, setMade] = useState<NewToken | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, once] = useOnce();
  const isAtRisk = isBusy || made !== null; // a secret nobody has taken down
  useUnsaved(isAtRisk, "shown");
  const close = (): void => {
    if (!isBusy) onClose();
  };
  const make = (event: FormEvent): void => {
    event.preventDefault();
    void once("", async () => {
      setMade(await post<NewToken>("/tokens", { name, role, expires_in_seconds: LIVES[life] }));
      void queries.invalidateQueries({ queryKey: ["tokens"] });
    }).catch(setError);
  };
  return (
    <Modal opened onClose={close} title={t("tokens.new")} closeOnEscape={!isAtRisk} closeOnClickOutside={!isAtRisk} closeButtonProps={{ "aria-label": t("common.close") }}>
      {made ? (
        <Stack>
          <Alert role="note" color="yellow" title={t("tokens.once")}>{t("tokens.once_text")}</Alert>
          <Command text={made.secret} />
          <Group justify="flex-end"><Button onClick={onClose}>{t("common.close")}</Button></Group>
        </Stack>
      ) : (
        <form onSubmit={make}>
          <Stack>
            <TextInput label={t("tokens.name")} description={t("tokens.name_note")} required value={name} onChange={(event) => setName(event.currentTarget.value)} maxLength={200} data-autofocus />
            <NativeSelect label={t("tokens.role")} value={role} onChange={(event) => setRole(event.currentTarget.value as Role)} data={(["viewer", "operator", "admin"] as const).map((value) => ({ value, label: `${t(`role.${value}`)}: ${t(`role.${value}_may`)}` }))} />
            <NativeSelect label={t("tokens.life")} value={life} onChange={(event) => setLife(event.currentTarget.value as keyof typeof LIVES)} data={(Object.keys(LIVES) as (keyof typeof LIVES)[]).map((value) => ({ value, label: t(`tokens.life_${value}`) }))} />
            <ProblemAlert error={error} />
            <Group justify="flex-end"><Button variant="default" disabled={isBusy} onClick={close}>{t("common.back")}</Button><Button type="submit" loading={isBusy} disabled={!name.trim()}>{t("tokens.make")}</Button></Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
