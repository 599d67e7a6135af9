import { Alert, Button, Center, Code, Paper, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiError } from "../api";
import { Preferences } from "../Preferences";
import { Command } from "../components/bits";
import { ProblemAlert } from "../components/problem";
import { useSession } from "../session";

export function Login(): ReactNode {
  const { t } = useTranslation();
  const { logIn, refused } = useSession();
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!token.trim()) return;
    setBusy(true);
    setError(null);
    logIn(token.trim())
      .catch(setError)
      .finally(() => setBusy(false));
  };

  return (
    <Center mih="100vh" p="md" component="main">
      <Stack w="100%" maw={460}>
        <Stack gap={4}>
          <Title order={1}>Rota</Title>
          <Text c="dimmed">{t("login.about")}</Text>
        </Stack>
        <Paper withBorder p="lg">
          <form onSubmit={submit}>
            <Stack>
              <PasswordInput
                label={t("login.token")}
                description={t("login.token_note")}
                placeholder="rota_…"
                autoComplete="current-password"
                value={token}
                onChange={(event) => setToken(event.currentTarget.value)}
                visibilityToggleButtonProps={{ "aria-label": t("login.show") }}
                autoFocus
              />
              <Button type="submit" loading={isBusy} disabled={!token.trim()}>
                {t("login.enter")}
              </Button>
              <ProblemAlert error={error ?? refused} isBrief={error instanceof ApiError && error.problem.code === "unauthenticated" && token !== ""} />
            </Stack>
          </form>
        </Paper>
        <Alert role="note" variant="light" color="gray" title={t("login.where")}>
          <Stack gap="xs">
            <Text size="sm">
              {t("login.where_dev")} <Code>.rota/token</Code>
            </Text>
            <Text size="sm">{t("login.where_cluster")}</Text>
            <Command text="rota token create console --role operator" />
          </Stack>
        </Alert>
        <Preferences />
      </Stack>
    </Center>
  );
}
