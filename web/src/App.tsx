// The frame of the console: who is there, where to go, whether it is live.

import { ActionIcon, Alert, AppShell, Badge, Box, Burger, Button, Divider, Group, Kbd, NavLink, ScrollArea, Stack, Text, Tooltip } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { Activity, BookOpen, CalendarClock, CalendarDays, ChartColumn, ClipboardList, KeyRound, Layers, LayoutDashboard, ListChecks, LogOut, Network, Pause, Play, Search, Server, Settings2, SlidersHorizontal } from "lucide-react";
import { lazy, type ReactNode, Suspense, useEffect, useLayoutEffect } from "react";
import { useTranslation } from "react-i18next";
import { Empty, Loading, TextLink } from "./components/bits";
import { Boundary, notifyProblem, ProblemAlert } from "./components/problem";
import { useListKeys } from "./keys";
import { LiveProvider, useLive } from "./live";
import { Palette } from "./Palette";
import { Login } from "./pages/Login";
import { Preferences } from "./Preferences";
import { Link, mayLeave, usePlace } from "./router";
import { useSession } from "./session";
import { visible } from "./text";
import type { Role } from "./types";

const Overview = lazy(() => import("./pages/Overview"));
const Tasks = lazy(() => import("./pages/Tasks"));
const TaskDetail = lazy(() => import("./pages/TaskDetail"));
const Configs = lazy(() => import("./pages/Configs"));
const ConfigDetail = lazy(() => import("./pages/ConfigDetail"));
const Forecast = lazy(() => import("./pages/Forecast"));
const Calendars = lazy(() => import("./pages/Calendars"));
const CalendarDetail = lazy(() => import("./pages/CalendarDetail"));
const Queues = lazy(() => import("./pages/Queues"));
const Workers = lazy(() => import("./pages/Workers"));
const Cluster = lazy(() => import("./pages/Cluster"));
const Reports = lazy(() => import("./pages/Reports"));
const Audit = lazy(() => import("./pages/Audit"));
const Tokens = lazy(() => import("./pages/Tokens"));
const Settings = lazy(() => import("./pages/Settings"));

interface Entry {
  to: string;
  name: "overview" | "tasks" | "configs" | "forecast" | "calendars" | "queues" | "workers" | "cluster" | "reports" | "audit" | "tokens" | "settings";
  icon: typeof Activity;
  role: Role;
}

export const ENTRIES: readonly Entry[] = [
  { to: "/", name: "overview", icon: LayoutDashboard, role: "viewer" },
  { to: "/tasks", name: "tasks", icon: ListChecks, role: "viewer" },
  { to: "/task-configs", name: "configs", icon: Settings2, role: "viewer" },
  { to: "/forecast", name: "forecast", icon: CalendarClock, role: "viewer" },
  { to: "/calendars", name: "calendars", icon: CalendarDays, role: "viewer" },
  { to: "/queues", name: "queues", icon: Layers, role: "viewer" },
  { to: "/workers", name: "workers", icon: Server, role: "viewer" },
  { to: "/cluster", name: "cluster", icon: Network, role: "viewer" },
  { to: "/reports", name: "reports", icon: ChartColumn, role: "viewer" },
  { to: "/audit", name: "audit", icon: ClipboardList, role: "admin" },
  { to: "/tokens", name: "tokens", icon: KeyRound, role: "admin" },
  { to: "/settings", name: "settings", icon: SlidersHorizontal, role: "admin" },
];

export function App(): ReactNode {
  const { session, error, again } = useSession();
  if (error) {
    return (
      <Box p="xl" maw={600} mx="auto" component="main">
        <ProblemAlert error={error} onRetry={again} />
      </Box>
    );
  }
  if (session === undefined) return <Loading />;
  if (session === null) return <Login />;
  return (
    <LiveProvider>
      <Frame />
    </LiveProvider>
  );
}

function Frame(): ReactNode {
  const { t } = useTranslation();
  const { path } = usePlace();
  const [isOpen, { toggle, close }] = useDisclosure();
  const [isPaletteOpen, palette] = useDisclosure();
  useHotkeys([["mod+K", palette.toggle]], []);
  useListKeys();
  useEffect(close, [path, close]);
  useLayoutEffect(() => { // before the effect of a page that says more
    const entry = [...ENTRIES].reverse().find((one) => path.startsWith(one.to));
    document.title = entry ? `${t(`nav.${entry.name}`)} · Rota` : "Rota";
  }, [path, t]);

  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 270, breakpoint: "sm", collapsed: { mobile: !isOpen } }} padding="md">
      <a href="#main" className="skip-link" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        {t("nav.skip")}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t("nav.menu")} />
            <Link to="/" className="plain-link">
              <Group gap={8} wrap="nowrap">
                <img src="./favicon.svg" width={26} height={26} alt="" />
                <Text fw={700} size="lg">
                  Rota
                </Text>
              </Group>
            </Link>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Button variant="default" size="xs" leftSection={<Search size={14} />} onClick={palette.open} visibleFrom="sm" rightSection={<Kbd size="xs">Ctrl K</Kbd>}>
              {t("palette.open")}
            </Button>
            <ActionIcon variant="default" size="lg" hiddenFrom="sm" onClick={palette.open} aria-label={t("palette.open")}>
              <Search size={16} />
            </ActionIcon>
            <LiveIndicator />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm">
        <Navigation path={path} />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1} style={{ outline: "none" }}>
        <Box maw={1400} mx="auto">
          <Boundary key={path}>
            <Suspense fallback={<Loading />}>
              <Route path={path} />
            </Suspense>
          </Boundary>
        </Box>
      </AppShell.Main>
      <Palette opened={isPaletteOpen} onClose={palette.close} />
    </AppShell>
  );
}

function Navigation({ path }: { path: string }): ReactNode {
  const { t } = useTranslation();
  const { session, can, logOut } = useSession();
  const leave = async (): Promise<void> => {
    if (await mayLeave()) await logOut().catch(notifyProblem);
  };
  return (
    <>
      <AppShell.Section grow component={ScrollArea}>
        {ENTRIES.filter((entry) => can(entry.role)).map((entry) => (
          <NavLink
            key={entry.to}
            component={Link}
            to={entry.to}
            label={t(`nav.${entry.name}`)}
            leftSection={<entry.icon size={18} />}
            active={entry.to === "/" ? path === "/" : path.startsWith(entry.to)}
            aria-current={path === entry.to ? "page" : undefined}
          />
        ))}
        <Divider my="xs" />
        <NavLink component="a" href="docs" target="_blank" rel="noopener" label={t("nav.docs")} leftSection={<BookOpen size={18} />} />
      </AppShell.Section>
      <AppShell.Section>
        <Stack gap="xs">
          <Preferences withTime />
          <Group justify="space-between" wrap="nowrap" gap="xs">
            <Box miw={0}>
              <Text size="sm" truncate className="foreign" title={visible(session?.name ?? "")}>
                {visible(session?.name ?? "")}
              </Text>
              <Text size="xs" c="dimmed">
                {t(`role.${session?.role ?? "viewer"}`)} · {session?.tenant} · {session?.version}
              </Text>
            </Box>
            <Tooltip label={t("nav.log_out")}>
              <ActionIcon variant="default" onClick={() => void leave()} aria-label={t("nav.log_out")}>
                <LogOut size={16} />
              </ActionIcon>
            </Tooltip>
          </Group>
        </Stack>
      </AppShell.Section>
    </>
  );
}

function LiveIndicator(): ReactNode {
  const { t } = useTranslation();
  const { state, isPaused, setPaused } = useLive();
  const color = { live: "teal.6", reconnecting: "yellow.6", paused: "gray.5" }[state];
  return (
    <Group gap={4} wrap="nowrap">
      <Badge variant="dot" color={color} tt="none" data-testid="live" data-state={state} role="status">
        {t(`live.${state}`)}
      </Badge>
      <Tooltip label={isPaused ? t("live.resume") : t("live.pause")}>
        <ActionIcon variant="subtle" color="gray" onClick={() => setPaused(!isPaused)} aria-label={isPaused ? t("live.resume") : t("live.pause")}>
          {isPaused ? <Play size={16} /> : <Pause size={16} />}
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

function Route({ path }: { path: string }): ReactNode {
  const { t } = useTranslation();
  const { can } = useSession();
  const [, section = "", key] = path.split("/");
  const name = key === undefined ? undefined : decode(key);
  const entry = ENTRIES.find((one) => one.to === `/${section}`);
  if (entry && !can(entry.role)) {
    return (
      <Alert color="red" role="alert" title={t("problem.permission_denied.title")}>
        <Text size="sm">{t("problem.permission_denied.advice")}</Text>
      </Alert>
    );
  }
  if (path === "/" || section === "login") return <Overview />;
  if (section === "tasks") return name ? <TaskDetail key={name} id={name} /> : <Tasks />;
  if (section === "task-configs") return name ? <ConfigDetail key={name} type={name} /> : <Configs />;
  if (section === "forecast") return <Forecast />;
  if (section === "calendars") return name ? <CalendarDetail key={name} name={name} /> : <Calendars />;
  if (section === "queues") return <Queues />;
  if (section === "workers") return <Workers />;
  if (section === "cluster") return <Cluster />;
  if (section === "reports") return <Reports />;
  if (section === "audit") return <Audit />;
  if (section === "tokens") return <Tokens />;
  if (section === "settings") return <Settings />;
  return (
    <Empty title={t("nav.no_page")}>
      <TextLink to="/">{t("nav.overview")}</TextLink>
    </Empty>
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
