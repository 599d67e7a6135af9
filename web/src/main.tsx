import "./mantine.css";
import "@mantine/notifications/styles.css";
import "./style.css";

import { createTheme, MantineProvider, TableScrollContainer } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api";
import { App } from "./App";
import { ConfirmProvider } from "./components/confirm";
import { startI18n } from "./i18n";
import { SessionProvider } from "./session";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="rota-style-nonce"]')?.content ?? "";
setNonce(nonce); // for the styles that keep a page from scrolling behind a dialog

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      retry: (failures, error) => !(error instanceof ApiError && error.problem.status >= 400 && error.problem.status < 500) && failures < 2,
      placeholderData: (before: unknown) => before,
    },
  },
});

const theme = createTheme({
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 8 }, // links are read on white, too
  defaultRadius: "md",
  fontFamily: 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "Noto Sans Mono CJK SC", monospace',
  cursorType: "pointer",
  components: { TableScrollContainer: TableScrollContainer.extend({ defaultProps: { type: "native" } }) }, // no room kept for a bar
});

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no #root");

void startI18n().then(() =>
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={queries}>
          <Notifications position="bottom-right" />
          <ConfirmProvider>
            <SessionProvider>
              <App />
            </SessionProvider>
          </ConfirmProvider>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  ),
);
